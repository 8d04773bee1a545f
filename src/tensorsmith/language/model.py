"""What `ts.load` gives for a GGUF file or a folder: a language model, to be compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tensorsmith.compile import builder
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.language.architecture import Architecture, check_sizes
from tensorsmith.language.generator import Generator
from tensorsmith.language.network import StepSize, step_graph
from tensorsmith.language.products import check_weights
from tensorsmith.language.programs import Programs
from tensorsmith.language.weight import Weight
from tensorsmith.runtime.device import device_of
from tensorsmith.show.line import line
from tensorsmith.show.units import size
from tensorsmith.targets.target import Target, given_or_native, on_threads

if TYPE_CHECKING:
    from tensorsmith.language.tokens import Tokens


@dataclass(frozen=True)
class LanguageModel:
    """A network that gives the next token of a text. `ts.compile(model)` makes it a `Generator`.

    Its weights stay in the file, which is mapped into memory, until they are wanted.
    """

    name: str
    about: Architecture
    weights: Mapping[str, Weight] = field(repr=False)
    tokens: Callable[[], Tokens] = field(repr=False)  # raises `UserError` where there is no tokenizer, or no package for it
    ends: tuple[int, ...] = ()  # tokens that end a text
    chat_template: str | None = field(default=None, repr=False)
    special: Mapping[str, str] = field(default_factory=dict, repr=False)  # what templates call the first and the last token
    stored: str | None = None  # what `with_weights` asked for

    @property
    def context(self) -> int:
        """Tokens that it can look back on."""
        return self.about.context

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights in the file."""
        return sum(w.bytes for w in self.weights.values())

    def with_weights(self, weights: str | None) -> LanguageModel:
        """This model with its matrices stored in another format: "f32", "f16", "bf16", "int8", "q8_0" or "q4_0"."""
        return LanguageModel(**{**vars(self), "stored": check_weights(weights)})

    def compiled(
        self,
        *,
        database: Any = None,
        target: Target | str | None = None,
        effort: str | None = None,
        weights: str | None = None,
        threads: int | None = None,
        **others: Any,
    ) -> Generator:
        """What `ts.compile` gives of it."""
        for name, given in others.items():
            raise UserError(f"{name}={given!r} is not for language models")
        there = on_threads(given_or_native(target), threads)
        if (why := device_of(there.kind).why_not(there)) is not None:
            raise UserError(f"a language model is compiled where it runs: it {why}")
        build = builder(database, there, effort=effort, threads=threads)
        stored = check_weights(weights) or self.stored
        return Generator(self, Programs(self.about, self.weights, stored, build))

    def step_model(self, tokens: int = 1, sequences: int = 1, places: int = 256) -> Model:
        """The network of one step, to look at or to tune: some tokens of each of some sequences, whose caches have so many places.

        What `ts.tune(model.step_model(), database="tune.db")` finds, `ts.compile(model, database="tune.db")` uses.
        """
        check_sizes({"tokens": tokens, "sequences": sequences, "places": places}, "step_model")
        size = StepSize(tokens, sequences, min(places, self.context))
        return Model.from_graph(step_graph(self.about, self.weights, size, self.stored))

    def __repr__(self) -> str:
        about = self.about
        what = f"{about.family}, {about.layers} layers of {about.width}, {about.vocabulary} tokens, context of {about.context}"
        return line(self, f"{self.name}: {what}, {size(self.weight_bytes)}")
