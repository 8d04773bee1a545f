"""A program for each size of step, compiled when the first such step comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tensorsmith.graph.garbage import uncollected
from tensorsmith.graph.model import Model
from tensorsmith.lang.dtypes import Array
from tensorsmith.language.architecture import Architecture
from tensorsmith.language.network import StepSize, mask_of, step_graph
from tensorsmith.language.sequence import Sequence as State
from tensorsmith.language.sequence import places_for
from tensorsmith.language.weight import Weight
from tensorsmith.runtime.executable import Executable

PIECES = (1, 16, 64, 256)  # tokens of a step: each size is compiled for each size of cache
BATCHES = (1, 2, 4, 8)  # sequences of a step in which each has one token


class Programs:
    """Runs steps. What it compiles stays; `compiled` counts it."""

    def __init__(
        self, about: Architecture, weights: Mapping[str, Weight], stored: str | None, build: Callable[[Model], Executable]
    ) -> None:
        self.about, self.weights, self.stored = about, weights, stored
        self._build = build
        self._known: dict[StepSize, Executable] = {}
        self._lock = threading.Lock()

    @property
    def compiled(self) -> int:
        """How many sizes of step were compiled."""
        return len(self._known)

    @property
    def executables(self) -> list[Executable]:
        return list(self._known.values())

    def program(self, size: StepSize) -> Executable:
        with self._lock:
            if size not in self._known:
                with uncollected():
                    model = Model.from_graph(step_graph(self.about, self.weights, size, self.stored))
                self._known[size] = self._build(model)
            return self._known[size]

    def read(self, state: State, tokens: Sequence[int]) -> Array:
        """The logits behind the last of some tokens of one sequence, which takes them in; in pieces."""
        return self._pieces(state, self._anew(state, tokens))

    def _pieces(self, state: State, tokens: Sequence[int]) -> Array:
        at, logits = 0, None
        while at < len(tokens):
            count = piece_of(len(tokens) - at)
            logits = self._step([state], [tokens[at : at + count]], count)[0]
            at += count
        assert logits is not None
        return logits

    def _anew(self, state: State, tokens: Sequence[int]) -> Sequence[int]:
        """What a sequence has to read to take in some tokens: all of it, where other frequencies turn it from then on."""
        rotary = self.about.rotary
        long = rotary is not None and rotary.is_long(len(state) + len(tokens))
        if long == state.long:
            return tokens
        tokens = [*state.tokens, *tokens]
        state.rewind(0)
        state.long = long
        return tokens

    def read_each(self, states: Sequence[State], tokens: Sequence[int]) -> Array:
        """The logits of several sequences, each of which takes in one token."""
        lists = [self._anew(state, [token]) for state, token in zip(states, tokens)]
        found: dict[int, Array] = {n: self._pieces(states[n], t) for n, t in enumerate(lists) if len(t) > 1}
        alone = [n for n in range(len(states)) if n not in found]
        for at in range(0, len(alone), BATCHES[-1]):
            some = alone[at : at + BATCHES[-1]]
            count = next(n for n in BATCHES if n >= len(some))
            more = [State(self.about) for _ in range(count - len(some))]  # nobody reads what these give
            ids = [[tokens[n]] for n in some] + [[0]] * len(more)
            found |= dict(zip(some, self._step([*(states[n] for n in some), *more], ids, 1)))
        return np.stack([found[n] for n in range(len(states))])

    def _step(self, states: Sequence[State], tokens: Sequence[Sequence[int]], count: int) -> Array:
        """A step of `count` tokens of each sequence; what is missing is filled up, and forgotten."""
        context = self.about.context
        needed = [places_for(len(s) + len(t), context) for s, t in zip(states, tokens)]
        places = max(*needed, *(s.places for s in states))
        for state in states:
            state.grow(places)
        size = StepSize(count, len(states), places)
        program = self.program(size)
        given = self._inputs(states, tokens, size)
        logits, *news = program(*(given[a.name] for a in program.inputs))
        each = 2 * self.about.layers
        by_layer = [news[n * 2 * len(states) : (n + 1) * 2 * len(states)] for n in range(self.about.layers)]
        for s, (state, own) in enumerate(zip(states, tokens)):
            mine = [array for layer in by_layer for array in layer[2 * s : 2 * s + 2]]
            assert len(mine) == each
            state.append(own, mine)
        return np.asarray(logits)

    def _inputs(self, states: Sequence[State], tokens: Sequence[Sequence[int]], size: StepSize) -> dict[str, Array]:
        about, context = self.about, self.about.context
        ids = np.array([[*t, *[0] * (size.tokens - len(t))] for t in tokens])
        places = np.array([np.arange(len(s), len(s) + size.tokens) for s in states])
        x = self.weights["token_embd.weight"].rows(ids.reshape(-1))
        if about.embedding_scale != 1:
            x *= np.float32(about.embedding_scale)
        found: dict[str, Array] = {}
        for prefix, rotary in (("", about.rotary), ("local_", about.local_rotary)):
            if rotary is not None:
                tables = [rotary.tables(p, s.long) for p, s in zip(places, states)]
                found[f"{prefix}cos"], found[f"{prefix}sin"] = (np.concatenate([t[n] for t in tables]) for n in (0, 1))
        if about.rotary is None:
            x += self.weights["position_embd.weight"].rows(np.minimum(places, context - 1).reshape(-1))
        found["x"] = x
        windows = {w for w in about.windows if w is not None}
        for name, window in (("mask", None), *(("window_mask", w) for w in windows)):
            found[name] = np.stack([mask_of(p, len(s), size.cached, window) for p, s in zip(places, states)])
        found["last"] = np.array([n * size.tokens + len(t) - 1 for n, t in enumerate(tokens)])
        for s, state in enumerate(states):
            for n in range(about.layers):
                found[f"key_{n}_{s}"], found[f"value_{n}_{s}"] = state.arrays[2 * n : 2 * n + 2]
        return found


def piece_of(tokens: int) -> int:
    """How many of some tokens the next step takes: it is filled up where it has more places than there are tokens."""
    larger = next((n for n in PIECES if n >= tokens), PIECES[-1])
    smaller = next((n for n in reversed(PIECES) if n <= tokens), PIECES[0])
    return smaller if smaller > 1 and tokens <= larger // 2 else larger
