"""What the search knows of a program before it runs: features of candidates, and models that learn from measured ones.

features/   what a model sees: schema and rows of numbers (a backend extracts them)      models/   cost models, by kind
"""
