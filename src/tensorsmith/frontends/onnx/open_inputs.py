"""The inputs of a model of which some dimensions stay open on purpose.

shapes={"batch": None, "length": 128}           batch may be anything
shapes={"batch": [1, 8, 32]}                    anything, and these sizes will be wanted
shapes={"x": (None, 3, 224, 224)}               a dimension of an input that the file may have no name for
shapes={"x": ("batch", 3), "batch": [1, 8]}     the same with a name of one's own
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx import ValueInfoProto

from tensorsmith.errors import Parameter, Part, UserError, whole_number
from tensorsmith.frontends.onnx.inputs import Bindings, Dimension, bind, declared_shape, tuple_text, unknown_name
from tensorsmith.graph.open_model import checked_sizes
from tensorsmith.runtime.variants.symbols import OpenArgument, symbols_of

#: as `Bindings`, and besides: a dimension that stays open is None, or the list of sizes that will be wanted; in the shape of an
#: input it is None or a name
OpenBindings = Mapping[str, Sequence[int | str | None] | int | None]

_STAND_IN = 1 << 41  # sizes from here on, which no file has, stand for open dimensions while the others are bound


@dataclass(frozen=True)
class Opened:
    """Inputs of which some dimensions stay open, and the sizes that are named for each symbol."""

    inputs: tuple[OpenArgument, ...]
    sizes: Mapping[str, tuple[int, ...]]

    def at(self, sizes: Mapping[str, int]) -> Bindings:
        """What fixes all of them."""
        return {a.name: a.at(sizes) for a in self.inputs}


def opened(inputs: Sequence[ValueInfoProto], given: OpenBindings, constants: Mapping[str, tuple[int, ...]]) -> Opened | None:
    """The inputs with what is left open; None if nothing is. Raises `UserError` as `bind` does, and for sizes that cannot be."""
    declared = {v.name: declared_shape(v) for v in inputs}
    dimensions = {d for dims in declared.values() for d in dims or () if isinstance(d, str)}
    sizes: dict[str, tuple[int, ...]] = {}
    plain: dict[str, Sequence[int] | int] = {}
    for name, value in given.items():
        if name in declared and _is_sequence(value):
            shape = _symbols(name, value, declared[name])
            sizes |= {d: () for d in shape if isinstance(d, str)}
            plain[name] = [d if isinstance(d, int) else _stand_in(sizes, d) for d in shape]
    for name, value in given.items():
        if name in plain:
            continue
        if value is not None and not _is_sequence(value):
            plain[name] = value  # type: ignore[assignment]  # a size, or a mistake that `bind` names
            continue
        if name in declared:
            raise UserError(f"{name} is an input: give its shape, which may be open in part, ", _example(name, declared[name]))
        if name not in dimensions and name not in sizes:
            raise unknown_name(name, value, declared, dimensions)
        sizes[name] = () if value is None else checked_sizes(name, value)  # type: ignore[arg-type]
        if value is not None and not sizes[name]:
            raise UserError(f"no size is named for {name}; name some, or give None for any")
        if name in dimensions:
            plain[name] = _stand_in(sizes, name)
    if not sizes:
        return None
    names = {_STAND_IN + n: symbol for n, symbol in enumerate(sizes)}
    try:
        bound = bind(inputs, plain, constants)
    except UserError as problem:
        raise UserError(*(_without_stand_ins(part, names) for part in problem.parts)) from problem
    left = {name: found for name, found in bound.items() if name not in constants}
    arguments = [OpenArgument(name, tuple(names.get(n, n) for n in shape), dtype) for name, (shape, dtype) in left.items()]
    unused = [symbol for symbol in sizes if symbol not in symbols_of(arguments)]
    if unused:
        raise UserError(f"dimension {unused[0]} is left open, but no input has it")
    return Opened(tuple(arguments), sizes)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _stand_in(sizes: Mapping[str, object], symbol: str) -> int:
    return _STAND_IN + list(sizes).index(symbol)


def _symbols(name: str, shape: object, declared: tuple[Dimension, ...] | None) -> list[int | str]:
    """A shape with a name for each open dimension: that of the file, or that of its place."""
    found: list[int | str] = []
    for place, d in enumerate(shape):  # type: ignore[arg-type,var-annotated]  # a sequence
        own = declared[place] if declared is not None and place < len(declared) else None
        if isinstance(d, str) and isinstance(own, str) and own != d:
            raise UserError(f"dimension {place} of input {name} is called {own}, not {d}")
        if d is None:
            found.append(own if isinstance(own, str) else f"{name}_{place}")
        else:
            found.append(d if isinstance(d, str) else _whole(name, d))
    return found


def _whole(name: str, given: object) -> int:
    size = whole_number(given)
    if size is None:
        raise UserError(f"a size of input {name} is {given!r}; give a whole number, None or a name")
    return size


def _example(name: str, declared: tuple[Dimension, ...] | None) -> Parameter:
    """A shape of an input, open where the file leaves it open."""
    shape = [d if isinstance(d, int) else None for d in declared] if declared else [None, "..."]
    return Parameter("shapes", entries=((name, tuple_text(shape)),))


def _without_stand_ins(part: Part, names: Iterable[int]) -> Part:
    """What `bind` said, of which it did not know that it is open."""
    if isinstance(part, Parameter):
        return replace(part, entries=tuple((key, _replaced(value, names, "None")) for key, value in part.entries))
    return _replaced(part, names, "open") if isinstance(part, str) else part


def _replaced(text: str, names: Iterable[int], word: str) -> str:
    for n in names:
        text = text.replace(str(n), word)
    return text
