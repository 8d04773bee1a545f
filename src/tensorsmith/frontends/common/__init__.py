"""Conversions that front ends share, on plain arguments."""
