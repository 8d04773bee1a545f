"""Networks from elsewhere: tables from their operators to ours, and definitions of operators that are in none."""

from tensorsmith.frontends.own import register

__all__ = ["register"]
