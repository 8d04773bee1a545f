"""Operators of one's own: a definition in the language for an operator of a foreign ONNX domain, or of a PyTorch library.

    @register(onnx="com.example::Swish", torch="example::swish", elementwise=True)
    def swish(x, *, beta=1.0):
        return ts.compute(x.shape, lambda *i: x[i] * ts.sigmoid(beta * x[i]), name="swish")

Shape, type, reference value, code and search space all follow from the definition, as they do for ours.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tensorsmith.errors import TensorsmithError, UserError
from tensorsmith.graph import operators
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Attribute, Value
from tensorsmith.graph.operators import Kind
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.expr import Const, Expr, Load, Var, transform, walk
from tensorsmith.show.line import many, plain, typed

Definition = TypeVar("Definition", bound=Callable[..., Any])

_SEPARATOR = "::"


@dataclass(frozen=True)
class Own:
    """A definition that is registered. `tensors` says of each positional parameter whether it may be left out; `attributes` are the
    other parameters, True where there has to be one."""

    title: str
    operator: str  # its name among the operators of graphs
    definition: Callable[..., Any]
    tensors: tuple[bool, ...]
    variadic: bool  # takes any number of tensors behind those
    attributes: Mapping[str, bool]

    def add(self, b: Builder, given: Sequence[Value | None], attributes: Mapping[str, Any], what: object) -> list[Value]:
        """Its results on values; None is a tensor that was left out."""
        given = list(given)
        while given and given[-1] is None:
            given.pop()
        if len(given) > len(self.tensors) and not self.variadic:
            raise UserError(f"{what}: the definition of {self.title} takes {many(len(self.tensors), 'tensor')}, not {len(given)}")
        for n, optional in enumerate(self.tensors):
            if not optional and (n >= len(given) or given[n] is None):
                raise UserError(f"{what}: the definition of {self.title} needs tensor {n}, which is left out")
        missing = [name for name, needed in self.attributes.items() if needed and name not in attributes]
        if missing:
            raise UserError(f"{what}: the definition of {self.title} needs the attribute {missing[0]!r}, which is not given")
        held = tuple((name, type(value).__name__, value) for name, value in sorted(_held(attributes, what).items()))
        present = tuple(v is not None for v in given)
        values = [v for v in given if v is not None]
        return list(b.add_all(self.operator, values, present=present, given=held))

    def define(self, *tensors: Tensor, present: tuple[bool, ...], given: tuple[tuple[str, str, Attribute], ...], name: str) -> Any:
        """What a graph's operator does: calls the definition, and gives its stages names of their own."""
        rest = iter(tensors)
        arguments = [next(rest) if there else None for there in present]
        types = ", ".join(typed(t.dtype, t.shape) for t in tensors)
        try:
            made = self.definition(*arguments, **{key: value for key, _, value in given})
        except TensorsmithError:
            raise
        except Exception as problem:  # it is the user's own code
            raise UserError(f"the definition of {self.title} fails on {types or 'no tensors'}: {problem!r}") from problem
        several = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if not several or not all(isinstance(t, Tensor) for t in several):
            raise UserError(f"the definition of {self.title} gives {made!r:.80}; it must give a tensor, or a tuple of them")
        if operators.table()[self.operator].kind is Kind.ELEMENTWISE:
            _check_elementwise(self.title, tensors, several)
        return _renamed(several, tensors, name)


_ONNX: dict[str, Own] = {}
_TORCH: dict[str, Own] = {}
_names: Counter[str] = Counter()  # how often each was wanted


def register(
    *, onnx: str | Sequence[str] = (), torch: str | Sequence[str] = (), elementwise: bool = False
) -> Callable[[Definition], Definition]:
    """Registers the decorated definition for operators of ONNX ("domain::Name") and of PyTorch ("library::name", or
    "library::name.overload").

    Its positional parameters are the operator's tensors in order (one with the default None may be left out, `*rest` takes any
    number), its keyword parameters the operator's attributes or other arguments, by name. It gives a tensor, or a tuple of them.
    `elementwise` says that every element of the result is computed of the same elements of the inputs, broadcasting as NumPy does;
    that is checked, and lets it be fused and moved more freely.

        @ts.frontends.register(onnx="com.example::Swish", torch="example::swish", elementwise=True)
        def swish(x, *, beta=1.0):
            return ts.compute(x.shape, lambda *i: x[i] * ts.sigmoid(beta * x[i]), name="swish")

    A definition that is registered later takes the place of an earlier one, and of one of Tensorsmith's. Models that were loaded
    before keep what they have.
    """
    of_onnx, of_torch = ([_checked(n) for n in ((names,) if isinstance(names, str) else names)] for names in (onnx, torch))
    if not of_onnx and not of_torch:
        raise UserError('register needs the operator: onnx="domain::Name" or torch="library::name"')

    def registered(definition: Definition) -> Definition:
        own = _own(definition, (of_onnx or of_torch)[0])
        operators.operator(own.operator, Kind.ELEMENTWISE if elementwise else Kind.REDUCTION)(own.define)
        _ONNX.update(dict.fromkeys(of_onnx, own))
        _TORCH.update(dict.fromkeys((n if "." in n.rpartition(_SEPARATOR)[2] else f"{n}.default" for n in of_torch), own))
        return definition

    return registered


def of_onnx(domain: str, kind: str) -> Own | None:
    """The definition for an ONNX operator; None where there is none."""
    return _ONNX.get(f"{domain or 'ai.onnx'}{_SEPARATOR}{kind}")


def of_torch(name: str) -> Own | None:
    """The definition for an operator of PyTorch, by a name as "library.name.overload"."""
    return _TORCH.get(name.replace(".", _SEPARATOR, 1))


def torch_names() -> list[str]:
    """The operators of PyTorch that have a definition, as "library::name.overload"."""
    return list(_TORCH)


def _checked(name: object) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[\w.\-]+::[\w.]+", name):
        raise UserError(f'an operator is called {name!r:.80}; write "domain::Name", as in "com.example::Swish"')
    return name


def _own(definition: Callable[..., Any], title: str) -> Own:
    try:
        parameters = inspect.signature(definition).parameters.values()
    except (TypeError, ValueError):
        raise UserError(f"the definition of {title} is {definition!r:.80}; give a function of tensors") from None
    kinds = inspect.Parameter
    tensors, attributes, variadic = [], {}, False
    for p in parameters:
        if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
            if p.default not in (kinds.empty, None):
                wanted = "its attributes come behind a *, as in def swish(x, *, beta=1.0)"
                raise UserError(f"the definition of {title} has a positional parameter {p.name}={p.default!r:.40}; {wanted}")
            tensors.append(p.default is None)
        elif p.kind is kinds.KEYWORD_ONLY:
            attributes[p.name] = p.default is kinds.empty
        elif p.kind is kinds.VAR_POSITIONAL:
            variadic = True
        else:
            raise UserError(f"the definition of {title} takes **{p.name}; name its attributes, so that others are refused")
    return Own(title, _free_name(plain(title)), definition, tuple(tensors), variadic, attributes)


def _free_name(title: str) -> str:
    """A name that no operator of graphs has or ever had: shapes of results are remembered by it."""
    wanted = re.sub(r"\W+", "_", title.rpartition(_SEPARATOR)[2])
    while True:
        _names[wanted] += 1
        name = wanted if _names[wanted] == 1 else f"{wanted}_{_names[wanted]}"
        if name not in operators.table():
            return name


def _held(attributes: Mapping[str, Any], what: object) -> dict[str, Attribute]:
    """Attributes as values that can be compared: tuples for lists and arrays."""

    def held(value: Any, name: str) -> Attribute:
        if isinstance(value, (np.ndarray, np.generic)):
            value = value.tolist()
        if isinstance(value, (list, tuple)):
            return tuple(held(v, name) for v in value)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise UserError(f"{what}: the attribute {name!r} is a {type(value).__name__}; a definition takes numbers, words and lists")

    return {name: held(value, name) for name, value in attributes.items()}


def _stages(results: Sequence[Tensor], given: Sequence[Tensor]) -> Iterator[Tensor]:
    """The tensors that are computed, each behind those that it reads."""
    done = {id(t) for t in given}

    def visit(t: Tensor) -> Iterator[Tensor]:
        if id(t) in done or t.stage is None:
            return
        done.add(id(t))
        for e in walk(t.stage.body):
            if isinstance(e, Load) and isinstance(e.source, Tensor):
                yield from visit(e.source)
        yield t

    for t in results:
        yield from visit(t)


def _renamed(results: Sequence[Tensor], given: Sequence[Tensor], name: str) -> Tensor | tuple[Tensor, ...]:
    """The same with names that begin with `name`: definitions are called again and again, and their stages meet in one workload."""
    new: dict[int, Tensor] = {}
    ends = {id(t) for t in results}
    for number, t in enumerate(_stages(results, given)):
        assert t.stage is not None

        def reading(e: Expr) -> Expr | None:
            if not isinstance(e, Load) or id(e.source) not in new:
                return None
            found = new[id(e.source)]
            return Load(found.name, tuple(transform(i, reading) for i in e.indices), e.dtype, found)

        own = name if id(t) in ends and len(results) == 1 else f"{name}_{number}"
        stage = replace(t.stage, name=own, body=transform(t.stage.body, reading))
        new[id(t)] = Tensor(own, t.shape, t.dtype, t.constant, stage)
    made = tuple(new.get(id(t), t) for t in results)
    return made[0] if len(made) == 1 else made


def _check_elementwise(title: str, given: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Raises `UserError` where a definition does not compute elements of the same elements of its inputs."""

    def wrong(why: str) -> UserError:
        return UserError(f"the definition of {title} is registered as elementwise, but {why}")

    try:
        shape = np.broadcast_shapes(*(t.shape for t in given))
    except ValueError:
        raise wrong(f"its inputs {', '.join(str(list(t.shape)) for t in given)} do not broadcast") from None
    for t in results:
        if t.shape != shape:
            raise wrong(f"{t.name} is {typed(t.dtype, t.shape)}, where its inputs broadcast to {list(shape)}")
    for t in _stages(results, given):
        assert t.stage is not None
        if t.stage.reduction:
            raise wrong(f"stage {t.name} is a reduction")
        axes = [a.name for a in t.stage.axes]
        for load in walk(t.stage.body):
            if not isinstance(load, Load) or not isinstance(load.source, Tensor):
                continue
            shift = len(axes) - len(load.indices)
            for d, (index, extent) in enumerate(zip(load.indices, load.source.shape)):
                same = shift >= 0 and isinstance(index, Var) and index.name == axes[d + shift]
                one = extent == 1 and isinstance(index, Const) and index.value == 0
                if not same and not one:
                    raise wrong(f"stage {t.name} reads `{load}`")
