"""What `ts.compile` makes of a language model: text behind a prompt, all at once or as it comes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.lang.dtypes import Array
from tensorsmith.language.programs import Programs
from tensorsmith.language.sampling import Sampling
from tensorsmith.language.sequence import Sequence as State
from tensorsmith.language.tokens import Tokens
from tensorsmith.language.writing import Completion, Order, Writing, check_tokens
from tensorsmith.show.line import line

if TYPE_CHECKING:
    from tensorsmith.language.model import LanguageModel

_KEPT = 4  # finished sequences whose caches stay, for prompts that begin alike


class Generator:
    """Writes on. Prompts are texts, or lists of numbers of tokens, or lists of either; what comes is of the same kind.

        lm = ts.compile(ts.load("model.gguf"))
        text = lm.generate("Once upon a time", max_new_tokens=64)
        new_ids = lm.generate([1, 2, 3], max_new_tokens=64, temperature=0.8, top_p=0.95, seed=1)
        for piece in lm.stream("Once upon a time"):
            print(piece, end="", flush=True)

    A program for each size of step is compiled when the first such step comes, and stays: steps of one token or of pieces of a
    prompt, over caches whose sizes are powers of two.
    """

    def __init__(self, model: LanguageModel, programs: Programs) -> None:
        self.model, self.programs = model, programs
        self._tokens: Tokens | None = None
        self._kept: list[State] = []
        self._lock = threading.Lock()

    @property
    def tokenizer(self) -> Tokens:
        """Raises `UserError` where the model has none, or the package for it is missing."""
        if self._tokens is None:
            self._tokens = self.model.tokens()
        return self._tokens

    @property
    def has_tokenizer(self) -> bool:
        """Whether it can take and give text."""
        try:
            return self.tokenizer is not None
        except UserError:
            return False

    # -- whole texts -------------------------------------------------------------------------------------------------

    def generate(self, prompt: Any, **wanted: Any) -> Any:
        """New text behind a text, new tokens behind tokens; a list of them for several prompts.

        `max_new_tokens` (128); `temperature` (0: always the most likely token), `top_k`, `top_p`, `min_p`, `repetition_penalty`;
        `seed` of what is drawn: the same call gives the same text. `stop`: a text or the number of a token, or several, which end
        it and are not given; `ignore_end` goes on behind the model's own end. With `reuse` a prompt that begins as an earlier
        one did takes over what was computed for it; sums are then made in another order, whose rounding may differ.
        """
        found = self.complete(prompt, **wanted)
        one = isinstance(found, Completion)
        texts = isinstance(prompt, str) or (not one and isinstance(prompt[0], str))
        given = [c.text if texts else c.tokens for c in ([found] if one else found)]
        return given[0] if one else given

    def complete(self, prompt: Any, **wanted: Any) -> Any:
        """As `generate`, but gives a `Completion`: tokens, text, logarithms of probabilities, and why it ended."""
        prompts, several = _prompts(prompt)
        writings = self.writings(prompts, **wanted)
        for _ in self.written(writings):
            pass
        found = [w.completion for w in writings]
        return found if several else found[0]

    def stream(self, prompt: Any, **wanted: Any) -> Iterator[Any]:
        """As `generate` for one prompt, piece by piece: texts behind a text, tokens behind tokens, as soon as each is certain.

        What is wrong with the arguments is said at once, not with the first piece.
        """
        prompts, several = _prompts(prompt)
        if several:
            raise UserError("stream takes one prompt; generate takes several")
        writings = self.writings(prompts, **wanted)
        return self._pieces(writings, isinstance(prompt, str))

    def _pieces(self, writings: list[Writing], text: bool) -> Iterator[Any]:
        given = 0
        for writing, piece in self.written(writings):
            if text and piece:
                yield piece
            if not text:
                yield from writing.new[given:]
                given = len(writing.new)

    def writings(
        self,
        prompts: Sequence[Any],
        *,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stop: Any = (),
        ignore_end: bool = False,
        reuse: bool = False,
    ) -> list[Writing]:
        """Texts to be written on by `written`, from the arguments of `generate`."""
        sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
        stops = (stop,) if isinstance(stop, (str, int)) else tuple(stop)
        ends = frozenset(() if ignore_end else self.model.ends)
        orders = [Order(self.ids(p), max_new_tokens, sampling, seed, stops, ends) for p in prompts]
        texts = [isinstance(p, str) for p in prompts]
        with_text = any(texts) or any(isinstance(s, str) for s in stops)
        return [self.writing(order, n, with_text, reuse) for n, order in enumerate(orders)]

    # -- one step after another --------------------------------------------------------------------------------------

    def ids(self, prompt: str | Iterable[int]) -> tuple[int, ...]:
        """The tokens of a prompt, checked."""
        given = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        return check_tokens(given, self.model.about.vocabulary, self.model.context)

    def writing(self, order: Order, number: int = 0, text: bool = False, reuse: bool = False) -> Writing:
        """A text to be written on by `written`."""
        state = self._like(order.prompt) if reuse else self.sequence()
        return Writing(order, state, self.model.context, self.tokenizer if text else None, number, reuse)

    def written(self, writings: Sequence[Writing]) -> Iterator[tuple[Writing, str]]:
        """Writes texts to their ends, side by side; each with the text that became certain with each token."""
        try:
            for writing in writings:
                yield writing, writing.take(self.begun(writing))
            while going := [w for w in writings if w.ended_by is None]:
                for writing, piece in self.advanced(going):
                    yield writing, piece
        finally:
            for writing in writings:
                if writing.reuse:
                    self.keep(writing.state)

    def begun(self, writing: Writing) -> Array:
        """The logits behind a prompt."""
        return self.programs.read(writing.state, writing.order.prompt[len(writing.state) :])

    def advanced(self, writings: Sequence[Writing]) -> list[tuple[Writing, str]]:
        """One token more for each of some texts that were begun and have not ended."""
        logits = self.programs.read_each([w.state for w in writings], [w.new[-1] for w in writings])
        return [(w, w.take(row)) for w, row in zip(writings, logits)]

    def sequence(self) -> State:
        """An empty sequence, for `step`."""
        return State(self.model.about)

    def step(self, sequences: Sequence[State] | State, tokens: Sequence[Any]) -> Array:
        """Lets sequences take in tokens; the logits behind the last of each, f32 (sequences, vocabulary).

        A sequence and its tokens, or several sequences and a list of tokens for each. Those with one token go together.
        """
        one = isinstance(sequences, State)
        states: list[State] = [sequences] if isinstance(sequences, State) else list(sequences)
        lists = [check_tokens(t, self.model.about.vocabulary) for t in ([tokens] if one else tokens)]
        if len(states) != len(lists) or len({id(s) for s in states}) < len(states):
            raise UserError(f"{len(states)} sequences and {len(lists)} lists of tokens; give a list for each, and each once")
        for state, more in zip(states, lists):
            if len(state) + len(more) > self.model.context:
                raise UserError(
                    f"the sequence has {len(state)} tokens; {len(more)} more are beyond the {self.model.context} of the model"
                )
        found: dict[int, Array] = {}
        together = [n for n, t in enumerate(lists) if len(t) == 1]
        if together:
            rows = self.programs.read_each([states[n] for n in together], [lists[n][0] for n in together])
            found |= dict(zip(together, rows))
        found |= {n: self.programs.read(states[n], t) for n, t in enumerate(lists) if n not in found}
        logits = np.stack([found[n] for n in range(len(states))])
        return logits[0] if one else logits

    # -- caches of earlier prompts -----------------------------------------------------------------------------------

    def keep(self, state: State) -> None:
        """Lets a finished sequence stay for `reuse`; the oldest goes."""
        if len(state):
            with self._lock:
                self._kept = [*[s for s in self._kept if s is not state][1 - _KEPT :], state]

    def _like(self, prompt: Sequence[int]) -> State:
        """A sequence that has read the beginning of a prompt already, as far as an earlier one had it. Its last token is read anew:
        somebody wants the logits behind it."""
        with self._lock:
            shared = [_common(s.tokens, prompt[:-1]) for s in self._kept]
            if not shared or not max(shared):
                return self.sequence()
            best = int(np.argmax(shared))
            state = self._kept[best].copy()
        state.rewind(shared[best])
        return state

    def forget(self) -> None:
        """Gives back the memory of caches that were kept."""
        with self._lock:
            self._kept = []

    def __repr__(self) -> str:
        return line(self, f"{self.model.name}, {self.programs.compiled} sizes of step compiled")


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def _prompts(given: Any) -> tuple[list[Any], bool]:
    """Prompts, and whether several were given."""
    if isinstance(given, str):
        return [given], False
    try:
        found = list(given.tolist() if isinstance(given, np.ndarray) else given)
    except TypeError:
        raise UserError(f"the prompt is {given!r}; give a text, a list of numbers of tokens, or a list of either") from None
    if not found:
        raise UserError("the prompt has no token: give one at least")
    several = not isinstance(found[0], (int, np.integer))
    return (found, True) if several else ([found], False)
