"""Derivation rules, one file each: condition, application, before and after."""
