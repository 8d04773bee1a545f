"""Other definitions of the same outputs: what a search may choose from besides the one that was written down.

A 3 x 3 convolution of stride 1 against a constant weight can be computed in Winograd's transformed space with up to four times
fewer multiplications. The weight is then another one, made of the original once, when it is bound:

    conv[n, h, w, co] = sum(x[n, h + kh, w + kw, ci] * weight[kh, kw, ci, co])
        ->    direct                       weight as it is
              winograd-4, winograd-2       weight (6, 6, ci, co) or (4, 4, ci, co), by `transform_weight`

Rounding differs from the direct sum's, and is larger for tiles of 4 than for tiles of 2. Whoever wants the sum
as it was written says `formulations="direct"` to `ts.compile` and `ts.tune`.

Sums of bytes in i32 can be made so, too, with tiles of 2 and exactly, of pairs of i16. That is twice as fast on machines which have
nothing but these for bytes (`Target.multiplies_pairs`), and not faster on those that take four bytes at once: the others are asked
for with `pairs`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorsmith.errors import UserError
from tensorsmith.lang.affine import affine
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.lang.dtypes import Array, dtype
from tensorsmith.lang.expr import Binary, Cast, Const, Load, Select
from tensorsmith.lang.small import kept_if_small, small_load
from tensorsmith.lang.stage import Buffer, Stage, renamed, topological
from tensorsmith.lang.workload import Workload
from tensorsmith.ops.conv import pad
from tensorsmith.rewrites.epilogue import joined
from tensorsmith.rewrites.winograd import KERNEL, WHOLE_BITS, WHOLE_TILE, WHOLE_TYPE, transform_weight
from tensorsmith.rewrites.winograd_tiles import PARTS, winograd_conv
from tensorsmith.show.line import line

DIRECT = "direct"
ALL = "all"
_TILES = (4, 2)  # the likelier first
NAMES = (DIRECT, *(f"winograd-{tile}" for tile in _TILES))
_LEAST_CHANNELS = 16  # of the input: with fewer, the transforms cost more than the products they save
_LEAST_TILES = 12  # with fewer, the larger weight is read too seldom: in a network it comes from memory every time
_FREE_BITS = 31 - WHOLE_BITS  # of i32 that sums of bytes may take, before they are shifted
_SLACK = 4.0  # tiles of 4 were off by up to 1.2 times the tolerance of the sum as written


@dataclass(frozen=True)
class Formulation:
    """A workload with the same outputs as the `original`. `transforms` makes its constants of the original's, by input name.

    `growth` is how many bytes more its constants take. One that is `likely` may be used before anything was measured. `slack` is
    how many times the tolerance of the original its rounding may take.
    """

    name: str
    original: Workload
    workload: Workload
    transforms: Mapping[str, Callable[[Array], Array]] = field(default_factory=dict)
    growth: int = 0
    likely: bool = False
    slack: float = 1.0

    def __repr__(self) -> str:
        return line(self, f"{self.name} of {self.original.title}", f", key {self.workload.key[:8]}")


Options = Sequence[Formulation]  # some of the formulations of one workload, which itself comes first


def formulations(original: Workload, pairs: bool = False) -> tuple[Formulation, ...]:
    """The workload itself, first, then other formulations of it; `pairs`: those for machines that multiply bytes in pairs, too.

    Of one workload they are the same objects every time, so that `is` tells them apart.
    """
    return _formulations(original) + (_of_bytes(original) if pairs else ())


def chosen(options: Options, which: str) -> tuple[Formulation, ...]:
    """Those of some formulations that a user allows: "all", or names separated by commas ("direct", "winograd-2,winograd-4").

    The workload as it was written is always among them.
    """
    if which == ALL:
        return tuple(options)
    names = {name.strip() for name in which.split(",")}
    unknown = names - set(NAMES)
    if unknown:
        raise UserError(f"there is no formulation {', '.join(sorted(unknown))!r}; known are {', '.join((ALL, *NAMES))}")
    return tuple(f for f in options if f.name in names | {DIRECT})


def allowed(original: Workload, which: str, pairs: bool = False) -> tuple[Formulation, ...]:
    """The formulations of a workload that a user allows."""
    return chosen(formulations(original, pairs), which)


def as_written(original: Workload) -> Formulation:
    """The workload itself."""
    return Formulation(DIRECT, original, original)


def formulation_named(original: Workload, name: str) -> Formulation:
    """One of the formulations by its name."""
    return next(f for f in formulations(original, pairs=True) if f.name == name)


@functools.lru_cache(maxsize=256)
def _formulations(original: Workload) -> tuple[Formulation, ...]:
    found = [as_written(original)]
    convolution = _convolution(original)
    if convolution is not None and not convolution.whole:
        for tile in _TILES:
            if convolution.tiles(tile) >= _LEAST_TILES:
                found.append(_winograd(original, convolution, tile))
    return tuple(found)


@functools.lru_cache(maxsize=256)
def _of_bytes(original: Workload) -> tuple[Formulation, ...]:
    """Those for machines that multiply bytes in pairs of i16."""
    convolution = _convolution(original)
    if convolution is None or not convolution.whole or convolution.tiles(WHOLE_TILE) < _LEAST_TILES:
        return ()
    return (_winograd(original, convolution, WHOLE_TILE),)


def likely(original: Workload, options: Options | None = None) -> Formulation:
    """The formulation to use where none was measured, of the `options` or of all: Winograd's, else the direct one."""
    found = options or formulations(original)
    return next((f for f in found if f.likely), found[0])


def _convolution(original: Workload) -> _Convolution | None:
    """The first stage that can be computed otherwise: a group of fused operators has one convolution."""
    return next((c for stage in original.stages if (c := _match(original, stage)) is not None), None)


@dataclass(frozen=True)
class _Convolution:
    """A stage that is a 3 x 3 convolution of stride 1; `padded` is the stage that pads its input, if there is one."""

    stage: Stage
    source: Buffer
    weight: Buffer
    pairs: tuple[tuple[int, int], ...]  # of all spatial dimensions
    padded: str | None
    fill: float = 0  # what padding holds
    small: bool = False  # the weight is (`lang/small.py`)

    @property
    def whole(self) -> bool:
        """Whether it is of bytes."""
        return self.stage.dtype == "i32"

    def tiles(self, tile: int) -> int:
        """How many there are."""
        return math.prod(self.stage.shape[:-3]) * math.prod(-(-n // tile) for n in self.stage.shape[-3:-1])


def _match(original: Workload, stage: Stage) -> _Convolution | None:
    rank = len(stage.axes) - 2
    if stage.reduction != "sum" or rank not in (2, 3) or len(stage.reduce_axes) != rank + 1:
        return None
    data, weights, small = _factors(stage)
    if data is None or weights is None:
        return None
    weight = original.buffers.get(weights.tensor)
    if weight is None or not weight.constant or original.consumers[weight.name] != (stage.name,):
        return None
    n, *places, co = (a.name for a in stage.axes)
    *taps, ci = (a.name for a in stage.reduce_axes)
    moved = [{place: 1, tap: 1} for place, tap in zip(places, taps)]
    if not _is_at(data, [{n: 1}, *moved, {ci: 1}]) or not _is_at(weights, [{name: 1} for name in (*taps, ci, co)]):
        return None
    if weight.shape[-4:-2] != (KERNEL, KERNEL) or weight.shape[-2] < _LEAST_CHANNELS:
        return None
    if stage.dtype == "i32" and math.prod(a.extent for a in stage.reduce_axes) * _largest(data) * _largest(weights) >> _FREE_BITS:
        return None
    padded = _padding(original, data.tensor, rank)
    if padded is not None:
        return _Convolution(stage, padded[0], weight, padded[1], data.tensor, padded[2], small)
    return _Convolution(stage, original.buffers[data.tensor], weight, ((0, 0),) * rank, None, small=small)


def _factors(stage: Stage) -> tuple[Load | None, Load | None, bool]:
    """What a sum of products multiplies: elements of f32, or bytes in i32, and whether the second ones are known to be small."""
    body = stage.body
    if not isinstance(body, Binary) or body.op != "mul":
        return None, None, False
    one, other = body.a, body.b
    if stage.dtype == "i32":
        if not (isinstance(one, Cast) and isinstance(other, Cast) and {one.a.dtype, other.a.dtype} <= {"i8", "u8"}):
            return None, None, False
        one, other = one.a, other.a
    elif stage.dtype != "f32":
        return None, None, False
    small = small_load(other)
    other = other if small is None else small
    return (one, other, small is not None) if isinstance(one, Load) and isinstance(other, Load) else (None, None, False)


def _largest(load: Load) -> int:
    """Of what an integer can be, without its sign."""
    return 1 << (8 * dtype(load.dtype).bytes - (load.dtype[0] == "i"))


def _is_at(load: Load, wanted: list[dict[str, int]]) -> bool:
    """Whether the indices are just these sums of axes."""
    forms = [affine(i) for i in load.indices]
    return len(forms) == len(wanted) and all(
        form is not None and form.offset == 0 and dict(form.terms) == terms for form, terms in zip(forms, wanted)
    )


def _padding(original: Workload, name: str, rank: int) -> tuple[Buffer, tuple[tuple[int, int], ...], float] | None:
    """What a stage puts a number around, how many times, and which, if that is all it does and nothing else reads it."""
    if not original.is_stage(name) or len(original.consumers[name]) != 1 or name in original.outputs:
        return None
    stage = original.stage(name)
    if not (isinstance(stage.body, Select) and isinstance(stage.body.a, Load) and isinstance(stage.body.b, Const)):
        return None
    source = original.buffers[stage.body.a.tensor]
    forms = [affine(i) for i in stage.body.a.indices]
    if len(source.shape) != len(stage.shape) or any(f is None for f in forms):
        return None
    before = [-f.offset for f in forms if f is not None]
    pairs = [(b, full - b - n) for b, full, n in zip(before, stage.shape, source.shape)]
    x = placeholder(source.shape, source.dtype, source.name)
    fill = stage.body.b.value
    same = pad(x, pairs, fill, name=name)
    if same is x or stage.reduction:
        return None
    expected = workload([x, same]).stage(name)
    if renamed(stage, {b: b for b in original.buffers}, [a.name for a in expected.all_axes]) != expected:
        return None
    return source, tuple(pairs[1 : rank + 1]), fill


def _winograd(original: Workload, c: _Convolution, tile: int) -> Formulation:
    *depths, ci, co = c.weight.shape
    size = tile + KERNEL - 1
    u = Buffer(c.weight.name, (size, size, *depths[:-2], ci, co), WHOLE_TYPE if c.whole else c.weight.dtype, True)
    x = placeholder(c.source.shape, c.source.dtype, c.source.name)
    weight = placeholder(u.shape, u.dtype, u.name, constant=True)
    stages = [s for s in original.stages if s.name not in (c.stage.name, c.padded)]
    prefix, taken = c.stage.name, {b.name for b in original.inputs} | {s.name for s in stages}
    while any(f"{prefix}_{part}" in taken for part in PARTS):
        prefix += "_winograd"
    inner = workload([x, weight, winograd_conv(x, weight, c.pairs, tile, c.stage.name, prefix, c.fill)])
    inputs = tuple(u if b.name == u.name else b for b in original.inputs)
    changed = Workload(inputs, topological([*stages, *inner.stages]), original.outputs).check()
    changed = joined(changed, c.stage.name, f"{prefix}_blocks", tile)
    # with few tiles of 4, what tiles of 2 gain their larger weight may cost again
    many = c.whole or c.tiles(_TILES[0]) >= _LEAST_TILES
    transforms = {u.name: functools.partial(_transformed, tile=tile, small=c.small)}
    name = f"winograd-{tile}"
    changed = replace(changed, operators=f"{original.operators or '+'.join(original.outputs)} by {name}")
    in_pairs = c.whole and not c.small  # such bytes are stored as i16 anyway
    growth = u.bytes - c.weight.bytes * (2 if in_pairs else 1)
    return Formulation(name, original, changed, transforms, growth, many, 1.0 if c.whole else _SLACK)


def _transformed(weight: Array, tile: int, small: bool) -> Array:
    return transform_weight(kept_if_small(weight) if small else weight, tile)
