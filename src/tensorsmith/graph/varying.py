"""What makes the variants of a network with open dimensions, and says which of them can stand in for others."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tensorsmith.errors import InternalError, Refusal
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.graph.prefix import Outline, why_not_a_prefix
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.variants.bounded import BoundedVariant
from tensorsmith.runtime.variants.bounds import Bounds
from tensorsmith.runtime.variants.executable import KEEP, OpenExecutable
from tensorsmith.runtime.variants.ranges import MEMORY
from tensorsmith.runtime.variants.symbols import Sizes

log = logging.getLogger(__name__)

BuildBounded = Callable[[OpenModel, Sizes], tuple[Executable, Bounds]]  # raises `Refusal` where another size is another network

_MOST_OUTLINES = 64  # of sizes, the last that were asked about


def open_executable(
    model: OpenModel,
    build: Callable[[Model], Executable],
    name: str | None = None,
    keep: int | None = None,
    background: bool = False,
    ranges: bool = True,
    memory: int | None = None,
    build_bounded: BuildBounded | None = None,
) -> OpenExecutable:
    """The executable of an open model, with no variant yet; `build` compiles the model at some sizes, `build_bounded` for all up to
    some."""
    keep = KEEP if keep is None else keep
    made = OpenExecutable(
        name or model.name,
        model.inputs,
        _Maker(model, build, build_bounded),
        keep=keep,
        background=background,
        ranges=ranges,
        memory=MEMORY if memory is None else memory,
    )
    return model.presented(made)


class _Maker:
    """As in `runtime.variants.executable.Maker`."""

    def __init__(self, model: OpenModel, build: Callable[[Model], Executable], build_bounded: BuildBounded | None) -> None:
        self._model, self._build, self._build_bounded = model, build, build_bounded
        self._outlines: dict[Sizes, Outline] = {}

    def make(self, sizes: Sizes) -> Executable:
        return self._build(self._model.model(sizes))

    def bounded(self, largest: Sizes) -> BoundedVariant | str:
        if self._build_bounded is None or self._model.draws:
            return "random numbers are those of a place in a tensor of its own size"
        model = self._model
        try:
            executable, bounds = self._build_bounded(model, largest)
        except Refusal as why:
            return str(why)
        except InternalError as problem:  # a bug of ours, and no reason to refuse the call
            log.warning("%s has no bounded variant", model.name, exc_info=problem)
            return str(problem)
        return BoundedVariant(model.symbols, largest, model.inputs, executable, bounds)

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
