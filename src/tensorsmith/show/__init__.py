"""What objects show of themselves: one line, a table in a notebook. Imports nothing of the rest, so that everything may use it.

line      `repr`: one line, whatever the object      listed      lists that are shown as a whole
table     HTML tables and texts for notebooks        notebook    whether this is one, and something in it that changes
units     numbers with their units
"""
