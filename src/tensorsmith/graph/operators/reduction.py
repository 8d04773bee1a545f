"""Operators of this family, see `ops`."""
