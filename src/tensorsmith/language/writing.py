"""A text in the making: what was chosen so far, what of it can be shown, and whether it has ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import Array
from tensorsmith.language.sampling import Sampling, log_probability
from tensorsmith.language.sequence import Sequence as State
from tensorsmith.language.tokens import Tokens

_BROKEN = "\ufffd"  # what bytes that are no whole character are shown as


@dataclass(frozen=True)
class Order:
    """What is wanted behind a prompt. Of `stop`, numbers are tokens and strings are texts, none of which is given."""

    prompt: tuple[int, ...]
    max_new_tokens: int = 128
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    stop: tuple[int | str, ...] = ()
    ends: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if isinstance(self.max_new_tokens, bool) or not isinstance(self.max_new_tokens, int) or self.max_new_tokens < 1:
            raise UserError(f"max_new_tokens is {self.max_new_tokens!r}; give a positive number")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise UserError(f"seed is {self.seed!r}; give a number of 0 or more")
        for one in self.stop:
            if isinstance(one, bool) or not isinstance(one, (int, str)) or one == "":
                raise UserError(f"stop has {one!r}; give texts, or numbers of tokens")


@dataclass(frozen=True)
class Completion:
    """What came of an order. `text` is None where there was no tokenizer; `log_probabilities` are of the `tokens`, as the network
    gave them before any sampling. It ended by a "stop" (or the model's own end), or by its "length"."""

    tokens: list[int]
    text: str | None
    log_probabilities: list[float]
    ended_by: str


class Writing:
    """Takes logits, chooses tokens, and says which text is certain."""

    def __init__(
        self, order: Order, state: State, context: int, tokens: Tokens | None, number: int = 0, reuse: bool = False
    ) -> None:
        """`number` is that of the sequence in its batch: each draws its own numbers. With `reuse` its cache stays for others."""
        self.order, self.state, self.tokenizer = order, state, tokens
        self.reuse = reuse
        self.new: list[int] = []
        self.log_probabilities: list[float] = []
        self.ended_by: str | None = None
        self._room = min(order.max_new_tokens, context - len(order.prompt))
        self._random = np.random.default_rng([order.seed, number])
        self._stops = {t for t in order.stop if isinstance(t, int)} | order.ends
        self._texts = tuple(t for t in order.stop if isinstance(t, str))
        if self._texts and tokens is None:
            raise UserError("stop has texts, and there is no tokenizer to find them; give numbers of tokens")
        self.text = ""  # certain and given
        self._held = ""  # decoded, and perhaps the beginning of a stop
        self._begin = self._shown = 0  # of the tokens that are decoded together, and of those that are text already

    def take(self, logits: Array) -> str:
        """Chooses a token; gives the text that became certain by it."""
        token = self.order.sampling.choose(logits, [*self.order.prompt, *self.new], self._random)
        if token in self._stops:
            return self._end("stop")
        self.new.append(token)
        self.log_probabilities.append(log_probability(logits, token))
        piece = self._decoded(False)
        if self.ended_by is None and len(self.new) >= self._room:
            piece += self._end("length")
        return piece

    def _end(self, by: str) -> str:
        piece = self._decoded(True)
        self.ended_by = self.ended_by or by
        return piece

    def _decoded(self, last: bool) -> str:
        """Text of the tokens that are not text yet, less what may still change or be a stop."""
        if self.tokenizer is None or self.ended_by is not None:
            return ""
        before = self.tokenizer.decode(self.new[self._begin : self._shown])
        now = self.tokenizer.decode(self.new[self._begin :])
        if last or not now.endswith(_BROKEN):
            self._held += now[len(before) :]
            self._begin, self._shown = self._shown, len(self.new)
        found = [at for stop in self._texts if (at := self._held.find(stop)) >= 0]
        if found:
            self._held, self.ended_by = self._held[: min(found)], "stop"
            last = True
        keep = 0 if last else max((_overlap(self._held, stop) for stop in self._texts), default=0)
        piece = self._held[: len(self._held) - keep]
        self._held = self._held[len(piece) :]
        self.text += piece
        return piece

    @property
    def completion(self) -> Completion:
        """What it came to."""
        text = None if self.tokenizer is None else self.text
        return Completion(list(self.new), text, list(self.log_probabilities), self.ended_by or "length")


def _overlap(text: str, stop: str) -> int:
    """The most characters at the end of a text with which a stop begins."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if stop.startswith(text[-n:])), 0)


def check_tokens(tokens: Sequence[object], vocabulary: int, context: float = math.inf) -> tuple[int, ...]:
    """Numbers of tokens that a network takes."""
    found = tuple(int(t) if isinstance(t, (int, np.integer)) and not isinstance(t, bool) else -1 for t in tokens)
    for number, (given, token) in enumerate(zip(tokens, found)):
        if not 0 <= token < vocabulary:
            raise UserError(f"token {number} is {given!r}; tokens are numbers from 0 to {vocabulary - 1}")
    if not found:
        raise UserError("the prompt has no token: give one at least")
    if len(found) >= context:
        raise UserError(f"the prompt has {len(found)} tokens; the model looks back on {context:.0f}, one of which is the answer's")
    return found
