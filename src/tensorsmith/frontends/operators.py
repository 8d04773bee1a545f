"""Which operators of other systems are supported, from the tables of the front ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorsmith.elements import TABLE
from tensorsmith.errors import UserError, install


@dataclass(frozen=True)
class Operator:
    """An operator of another system that is supported."""

    system: str  # "onnx" or "torch"
    operator: str
    since: int | None  # the first version of ONNX's operator set from which it is; None: PyTorch's have no versions
    by_definition: bool  # ONNX defines it by other operators, and it is laid out so
    overloads: tuple[str, ...]  # of PyTorch's, those that are supported
    types: tuple[str, ...]  # of its first tensor: what the system allows there, as far as it is supported


def operators(system: str) -> list[Operator]:
    """The operators of a system, by name. Raises `UserError` where the system's package is not installed."""
    if system not in SYSTEMS:
        raise UserError(f"there is no front end for {system!r}; there are {', '.join(SYSTEMS)}")
    try:
        return SYSTEMS[system]()
    except ImportError as problem:
        raise UserError(f"the operators of {system} are listed where its package is installed: {install(system)}") from problem


#: types of operators that ONNX does not know, where they are not all floats
_OF_OTHERS = {"com.microsoft.QGemm": ("i8", "u8"), "com.microsoft.DynamicQuantizeLSTM": ("f32",)}


def _of_onnx() -> list[Operator]:
    import onnx

    from tensorsmith.frontends.onnx.chance import RANDOM
    from tensorsmith.frontends.onnx.table import table

    schemas: dict[str, list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        schemas.setdefault(".".join(filter(None, (schema.domain, schema.name))), []).append(schema)
    handled = {".".join(filter(None, key)): min(versions) for key, versions in table().items()}
    floats = tuple(name for name, facts in TABLE.items() if facts.kind == "f")
    found = []
    for kind, history in schemas.items():
        types = _tensor_types(max(history, key=lambda s: s.since_version))
        bodies = [s.since_version for s in history if s.has_function or s.has_context_dependent_function]
        types = floats if kind in RANDOM else types  # what is drawn, with a seed
        if kind in handled:
            since = max(handled[kind], min(s.since_version for s in history))
            found.append(Operator("onnx", kind, since, False, (), types))
        elif bodies and types:
            found.append(Operator("onnx", kind, min(bodies), True, (), types))
    for kind in handled.keys() - schemas.keys():  # operators of others
        found.append(Operator("onnx", kind, handled[kind], False, (), _OF_OTHERS.get(kind, floats)))
    return sorted(found, key=lambda o: o.operator)


#: ONNX's names of element types, and the short ones that are used everywhere here; in this order they are listed
_SHORT = {facts.onnx.lower(): name for name, facts in TABLE.items()}


def _tensor_types(schema: Any) -> tuple[str, ...]:
    """The types that the first tensor of an operator may have; its result's, where it takes none."""
    from onnx import TensorProto

    from tensorsmith.frontends.onnx.read import TYPES

    read = {TensorProto.DataType.Name(number).lower() for number in TYPES}
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    first = (schema.inputs or schema.outputs)[:1]
    names: Iterable[str] = (t for x in first for t in allowed.get(x.type_str, {x.type_str}))
    found = {name.removeprefix("tensor(").removesuffix(")") for name in names if name.startswith("tensor(")} & read
    return tuple(short for name, short in _SHORT.items() if name in found)


def _of_torch() -> list[Operator]:
    from tensorsmith.frontends.torch.table import table
    from tensorsmith.frontends.torch.types import TYPES

    overloads: dict[str, list[str]] = {}
    for name in table():
        operator, _, overload = name.rpartition(".")
        overloads.setdefault(operator, []).append(overload)
    types = tuple(sorted(TYPES.values(), key=list(_SHORT.values()).index))
    return [Operator("torch", name, None, False, tuple(sorted(found)), types) for name, found in sorted(overloads.items())]


SYSTEMS: Mapping[str, Callable[[], list[Operator]]] = {"onnx": _of_onnx, "torch": _of_torch}
