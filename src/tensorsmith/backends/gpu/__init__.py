"""GPUs: facts, features and prior, code, and the drivers that run it.

target, named, detect     the facts of a GPU

Nothing is imported here: loading a saved executable needs few of the modules.
"""
