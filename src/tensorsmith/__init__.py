"""Tensorsmith: finds, by search, a fast program for a tensor computation."""

__version__ = "0.1.0"
