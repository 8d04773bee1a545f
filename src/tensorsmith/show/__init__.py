"""What objects show of themselves: one line, a table in a notebook. Imports nothing of the rest, so that everything may use it.

line      `repr`: one line, whatever the object; `plain` and `page`, through which everything goes that a stranger may have named
listed    lists that are shown as a whole
table     HTML tables and texts for notebooks
notebook  whether this is one, and something in it that changes
units     numbers with their units
"""
