"""Commands and groups of them, whose help shows no value for an option that takes none."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_values(super().get_params(ctx))


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_values(super().get_params(ctx))


def _without_values(params: list[Any]) -> list[Any]:
    """Flags and counters, `--help` among them, lose the name of a value: Typer calls it `<bool>` or `<int>`."""
    for param in params:
        if getattr(param, "is_flag", False) or getattr(param, "count", False):
            param.metavar = ""
    return params
