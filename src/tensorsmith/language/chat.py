"""A conversation as the text that a model was taught to go on with, by the template in its files (Jinja, in a sandbox)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorsmith.errors import UserError, install
from tensorsmith.language.tokens import EXTRA

_LONGEST = 1 << 20  # characters of a text that a template may make


def conversation(template: str | None, special: Mapping[str, str], messages: Sequence[Any]) -> str:
    """The text of messages, `{"role": "user", "content": "..."}` each, up to where the model answers."""
    if template is None:
        raise UserError("the model has no chat template: give a prompt instead of messages")
    for message in messages:
        known = isinstance(message, Mapping) and isinstance(message.get("role"), str) and isinstance(message.get("content"), str)
        if not known:
            raise UserError(f'a message is {str(message)[:80]!r}; expected {{"role": ..., "content": ...}}, both texts')
    if not messages:
        raise UserError("there are no messages: give one at least")
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as problem:
        raise UserError(f"chat templates need the package jinja2 ({install(EXTRA)}); without it, give a prompt") from problem

    def refuse(message: object) -> None:
        raise UserError(f"the model's chat template refuses the messages: {message}")

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    try:
        text = environment.from_string(template).render(messages=list(messages), add_generation_prompt=True, **special)
    except UserError:
        raise
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as problem:
        raise UserError(f"the model's chat template cannot be used: {problem}") from problem
    if len(text) > _LONGEST:
        raise UserError(f"the conversation is {len(text)} characters long; {_LONGEST} are the most")
    return str(text)
