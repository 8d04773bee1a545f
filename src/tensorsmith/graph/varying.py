"""What makes the variants of a network with open dimensions, and says which of them can stand in for others."""

from __future__ import annotations

from collections.abc import Callable

from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.graph.prefix import Outline, why_not_a_prefix
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.variants.executable import KEEP, OpenExecutable
from tensorsmith.runtime.variants.symbols import Sizes

_MOST_OUTLINES = 64  # of sizes, the last that were asked about


def open_executable(
    model: OpenModel,
    build: Callable[[Model], Executable],
    name: str | None = None,
    keep: int | None = None,
    background: bool = False,
) -> OpenExecutable:
    """The executable of an open model, with no variant yet; `build` compiles the model at some sizes."""
    keep = KEEP if keep is None else keep
    made = OpenExecutable(name or model.name, model.inputs, _Maker(model, build), keep=keep, background=background)
    return model.presented(made)


class _Maker:
    """As in `runtime.variants.executable.Maker`."""

    def __init__(self, model: OpenModel, build: Callable[[Model], Executable]) -> None:
        self._model, self._build = model, build
        self._outlines: dict[Sizes, Outline] = {}

    def make(self, sizes: Sizes) -> Executable:
        return self._build(self._model.model(sizes))

    def outputs_within(self, small: Sizes, large: Sizes) -> tuple[tuple[int, ...], ...] | str:
        if self._model.draws:
            return "random numbers are those of a place in a tensor of its own size"
        one, other = self._outline(small), self._outline(large)
        return why_not_a_prefix(one, other) or one.output_shapes

    def _outline(self, sizes: Sizes) -> Outline:
        found = self._outlines.get(sizes)
        if found is None:
            found = Outline.of(self._model.model(sizes).source)
            while len(self._outlines) >= _MOST_OUTLINES:
                self._outlines.pop(next(iter(self._outlines)), None)
            self._outlines[sizes] = found
        return found
