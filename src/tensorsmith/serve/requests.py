"""What a request wants, checked: its JSON in the form of OpenAI's completions and chats."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.language.chat import conversation
from tensorsmith.language.generator import Generator
from tensorsmith.language.sampling import Sampling
from tensorsmith.language.writing import Order, check_tokens

_MOST = 8  # texts of one request
_DEFAULT = 16  # tokens of a completion that does not say how many; the interface's own
#: what is understood as if it were not there, where it has one of these values; anything else is refused
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "echo": (False, None),
    "best_of": (1, None),
    "suffix": (None, ""),
    "logit_bias": (None, {}),
    "frequency_penalty": (0, None),
    "presence_penalty": (0, None),
    "tools": (None, []),
    "functions": (None, []),
    "response_format": (None, {"type": "text"}),
}


@dataclass(frozen=True)
class Wanted:
    """Orders, each with whether its text is wanted, and in which form they are to be answered."""

    orders: list[tuple[Order, bool]]
    chat: bool
    stream: bool
    log_probabilities: bool
    usage_at_end: bool  # of a stream


def wanted(lm: Generator, body: Mapping[str, Any], chat: bool) -> Wanted:
    """Raises `UserError` for what cannot be done."""
    for name, neutral in _NEUTRAL.items():
        if name in body and body[name] not in neutral:
            raise UserError(f"{name} is not supported")
    prompts = _conversation(lm, body) if chat else _prompts(lm, body)
    count = _number(body, "n", 1, 1, _MOST)
    if len(prompts) * count > _MOST:
        raise UserError(f"the request asks for {len(prompts) * count} texts; {_MOST} are the most")
    seed = body.get("seed")
    seed = secrets.randbits(32) if seed is None else _number(body, "seed", 0, 0, 1 << 63)
    sampling = Sampling(
        _real(body, "temperature", 1.0),
        body.get("top_k"),
        _real(body, "top_p", 1.0),
        _real(body, "min_p", 0.0),
        _real(body, "repetition_penalty", 1.0),
    )
    stop = body.get("stop")
    stops = () if stop is None else tuple(stop) if isinstance(stop, list) else (stop,)
    ends = frozenset(() if body.get("ignore_eos") else lm.model.ends)
    orders = []
    for prompt, text in prompts:
        ids = check_tokens(prompt, lm.model.about.vocabulary, lm.model.context)
        room = lm.model.context - len(ids)
        name = "max_completion_tokens" if chat and body.get("max_completion_tokens") is not None else "max_tokens"
        most = min(_number(body, name, room if chat else _DEFAULT, 1, 1 << 31), room)
        orders.append((Order(ids, most, sampling, seed, stops, ends), text or any(isinstance(s, str) for s in stops)))
    options = body.get("stream_options") or {}
    usage = bool(options.get("include_usage")) if isinstance(options, dict) else False
    log_probabilities = body.get("logprobs") is not None and body.get("logprobs") is not False
    return Wanted([o for o in orders for _ in range(count)], chat, bool(body.get("stream")), log_probabilities, usage)


def _conversation(lm: Generator, body: Mapping[str, Any]) -> list[tuple[list[int], bool]]:
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise UserError("messages is missing, or no list")
    text = conversation(lm.model.chat_template, lm.model.special, messages)
    return [(lm.tokenizer.encode(text, special=False), True)]


def _prompts(lm: Generator, body: Mapping[str, Any]) -> list[tuple[list[int], bool]]:
    given = body.get("prompt")
    several = isinstance(given, list) and bool(given) and not isinstance(given[0], int)
    found = []
    for prompt in given if several and isinstance(given, list) else [given]:
        if isinstance(prompt, str):
            found.append((lm.tokenizer.encode(prompt), True))
        elif isinstance(prompt, list):
            found.append((prompt, lm.has_tokenizer))
        else:
            raise UserError("prompt has to be a text, a list of numbers of tokens, or a list of either")
    return found


def _number(body: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    given = body.get(name)
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
        raise UserError(f"{name} is {repr(given)[:40]}; expected a whole number from {low} to {high}")
    return given


def _real(body: Mapping[str, Any], name: str, default: float) -> float:
    given = body.get(name)
    return default if given is None else given
