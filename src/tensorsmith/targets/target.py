"""What we generate for: the few facts that every kind of machine has, and the kinds there are.

    Target.native()            this machine
    Target.native("opencl")    the OpenCL device that is here
    Target.named("znver3")     one of `targets()`

What only one kind has (vector registers, cache sizes) is in that kind's own class, in its folder under `backends/`, and is read
nowhere else. In JSON a target is an object of its facts by name. What a reader does not know it passes over, and what is missing
takes its default, so records and files outlive the facts of the day.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tensorsmith.errors import TARGETS, Parameter, UserError
from tensorsmith.show.line import line, short_digest
from tensorsmith.show.table import table
from tensorsmith.targets.host import check_threads

VERSION = 1  # of the JSON form; a form without one is of version 1 too


@dataclass(frozen=True)
class Target(ABC):
    """A machine to generate for. Kinds are frozen dataclasses of facts, each with a default: equal facts, equal targets.

    This machine, or one by its name with some facts of its own:

        here = ts.Target.native()
        there = ts.Target.named("znver4", cores=16)
        ts.compile([A, B, C], target=there).bind(B=b).save("there.tsm")
    """

    kind: ClassVar[str]  # which backend generates for it

    @property
    @abstractmethod
    def cores(self) -> int:
        """Units that work in parallel on one program."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What people call it."""

    @property
    @abstractmethod
    def key(self) -> str:
        """Stable identity of what its programs need; part of every record's key."""

    @abstractmethod
    def lanes(self, element_bytes: int = 4) -> int:
        """How many elements of that size one instruction works on."""

    @property
    @abstractmethod
    def shared_cache_bytes(self) -> int:
        """Of the last cache, which all cores share."""

    @property
    @abstractmethod
    def core_cache_bytes(self) -> int:
        """Of the largest cache that each core has for itself."""

    @property
    def multiplies_pairs(self) -> bool:
        """Whether it multiplies bytes in pairs of i16, for want of anything that takes four of any bytes at once. Small ones may be
        faster there (`lang/small.py`), and 3 x 3 convolutions by Winograd's transforms (`rewrites/formulations.py`)."""
        return False

    def describe(self) -> dict[str, str]:
        """What people want to know of it, a line each."""
        return {self.kind: self.name, "cores": str(self.cores)}

    def __repr__(self) -> str:
        return line(self, self.key, f" {short_digest(str(self.to_json()))}")

    def __init_subclass__(cls, **options: Any) -> None:
        """Kinds are dataclasses, which would write all their facts; each is told by its key instead."""
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):
            cls.__repr__ = Target.__repr__  # type: ignore[method-assign]

    def _repr_html_(self) -> str:
        return table(("fact", "value"), list(self.describe().items()), title=self.key)

    @classmethod
    @abstractmethod
    def detect(cls) -> Target:
        """The machine of this kind that is here. Raises `UserError` if there is none."""

    @classmethod
    def found_by(cls) -> Mapping[str, Callable[[], Target]]:
        """Where machines of this kind are found in several ways: each by the name that `native` takes, as in `native("opencl")`."""
        return {}

    @classmethod
    def catalogue(cls) -> Mapping[str, Target]:
        """Machines of this kind that are known by name."""
        return {}

    @staticmethod
    def native(kind: str = "cpu") -> Target:
        """The machine that this process runs on, or its device of another kind or found in another way; detected once."""
        return _native(kind)

    @staticmethod
    def named(name: str, **facts: Any) -> Target:
        """One of `targets()`; `facts` in place of the usual ones, as in `named("znver4", cores=8)`."""
        known = targets()
        if name not in known:
            close = [repr(near) for near in difflib.get_close_matches(str(name), known, 3, 0.5)]
            hint = f", did you mean {', '.join(close[:-1])}{' or ' if close[1:] else ''}{close[-1]}?" if close else ";"
            made_for = dict.fromkeys(t.key.partition("/")[0].partition("+")[0] for t in known.values())
            all_of_them = f" lists all machines that can be generated for, of {', '.join(made_for)}"
            raise UserError(f"there is no target {name!r}{hint} ", TARGETS, all_of_them)
        return known[name].with_facts(**facts)

    def with_facts(self, **facts: Any) -> Target:
        """The same machine but for some facts, as in `native().with_facts(cores=1)`."""
        wrong = sorted(facts.keys() - {f.name for f in dataclasses.fields(self)})
        if wrong:
            raise UserError(f"{self.name} has no fact {wrong[0]!r}; it has {', '.join(f.name for f in dataclasses.fields(self))}")
        return dataclasses.replace(self, **facts)

    def to_json(self) -> dict[str, Any]:
        """Its facts by name, its kind, and the version of this form."""
        return {"kind": self.kind, "version": VERSION, **dataclasses.asdict(self)}

    @staticmethod
    def from_json(form: Any) -> Target:
        """The target of a JSON form, of this version of the package or of another. Raises `UserError` on anything malformed."""
        if not isinstance(form, dict):
            raise UserError("malformed target: not an object")
        kind = form.get("kind", "cpu")
        if not isinstance(kind, str):
            raise UserError(f"malformed target: kind is {kind!r:.40}")
        return kind_of(kind)._of_facts(form)

    @classmethod
    def _of_facts(cls, form: dict[str, Any]) -> Target:
        values = {}
        for f in dataclasses.fields(cls):
            if f.name not in form and f.default is not dataclasses.MISSING:
                continue
            value, wanted = form.get(f.name), _TYPES.get(f.type, object)
            if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
                raise UserError(f"malformed target: {f.name} is {value!r:.40}")
            values[f.name] = value
        return cls(**values)


#: of facts, by how their annotations are written
_TYPES: dict[Any, type | tuple[type, ...]] = {"str": str, "int": int, "bool": bool, "float": (float, int)}
_TYPES |= {str: str, int: int, bool: bool, float: (float, int)}

#: modules whose `TARGET` is the class of a kind, imported when the kind is first asked for
_BUILT_IN = {"cpu": "tensorsmith.backends.cpu.target", "gpu": "tensorsmith.backends.gpu.target"}
_known: dict[str, type[Target]] = {}


def register_kind(target: type[Target]) -> None:
    """Makes the targets of another kind known to this process."""
    _known[target.kind] = target


def kinds() -> tuple[str, ...]:
    """The kinds there are."""
    return tuple(dict.fromkeys([*_BUILT_IN, *_known]))


def kind_of(kind: str) -> type[Target]:
    """The class of a kind's targets."""
    if kind not in _known:
        if kind not in _BUILT_IN:
            raise UserError(f"there is no backend for targets of kind {kind!r}; known are {', '.join(kinds())}")
        _known[kind] = importlib.import_module(_BUILT_IN[kind]).TARGET
    return _known[kind]


@functools.cache
def _native(kind: str) -> Target:
    ways = {} if kind in kinds() else {name: find for known in kinds() for name, find in kind_of(known).found_by().items()}
    return ways[kind]() if kind in ways else kind_of(kind).detect()


def targets() -> dict[str, Target]:
    """The machines that are known by name, of all kinds.

    Names are what `ts.compile(target=...)`, `Target.named` and `--target` take:

        for name, target in ts.targets().items():
            print(name, target.cores, target.key)
    """
    return {name: target for kind in kinds() for name, target in kind_of(kind).catalogue().items()}


def native() -> Target:
    """The CPU that this process runs on."""
    return Target.native()


def given_or_native(target: Target | str | None) -> Target:
    """The target that a caller gave, itself or by its name, or this machine."""
    if target is None:
        return native()
    if isinstance(target, str):
        return native() if target == "native" else Target.named(target)
    if not isinstance(target, Target):
        raise UserError(f"target is {target!r}; give a tensorsmith.Target, a name of `tensorsmith.targets()`, or nothing")
    return target


def on_threads(target: Target, threads: int | None) -> Target:
    """The machine as a program for so many threads sees it: one of that many cores; None: all of its own."""
    check_threads(threads, here=target == native())
    if threads is None:
        return target
    if "cores" not in {f.name for f in dataclasses.fields(target)}:
        raise UserError(Parameter("threads"), f" is for CPUs; on {target.name}, of kind {target.kind}, there are none to choose")
    return target.with_facts(cores=threads)


def target_differences(here: Target, there: Target) -> list[str]:
    """The facts that give two targets different keys, as `vector_bytes 32 != 64`."""
    if type(here) is not type(there):
        return [f"kind {here.kind} != {there.kind}"]
    found = []
    for f in dataclasses.fields(here):
        mine, other = getattr(here, f.name), getattr(there, f.name)
        if dataclasses.replace(here, **{f.name: other}).key != here.key:
            found.append(f"{f.name} {mine} != {other}")
    return found
