"""Sketches, candidates and the holes between them.

A sketch says how every stage of a workload is computed, with the numbers left open:

    Nest("C", loops="i.0 j.0 k.0 i.1 j.1 | k.1 i.2 j.2", vector="j.2")

Each axis is split into parts, `i.0` the outermost. Loops before the bar are *outer* loops; those behind it form the
*register tile*: its spatial loops are unrolled (the vector one in lanes), its reduction loops run inside with the results
held in registers. A stage may be attached inside another one's outer loops (`at="D:3"`: inside the first three), or
at the very register tile (the depth equal to the number of outer loops), where its values never leave the registers.
An outer or reduction loop written `w.0!` is laid out step by step, so that what depends on its value (padding) is decided
beforehand.

Holes, by name, are: `C.i.1`, `C.i.2` (sizes of the inner parts of an axis; the outermost part takes what is left, and a
tile need not divide the extent), `C.parallel` (how many outer loops of a root stage are fused and shared among threads)
and `C.unroll` (how many copies of the innermost reduction step are laid out in a row). A candidate is a sketch with a
value for every hole; the values are plain integers, or one array each for a whole population.

A derived sketch may also have *choices*: holes that change the structure itself, each with a list of options: `P.at`
(where a stage is computed: "root", "inline", "D:2"), `D.rows` (inside how many loops of D the stages of its rows are
computed), `C.loops` (order of the loops) and `C.factor` (of an rfactor). The value is the number of the option.
`resolve` takes the options chosen and gives a sketch without choices, which is what a candidate holds and what is
stored.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tensorsmith.errors import Refusal, UserError
from tensorsmith.lang.expr import Load, Var
from tensorsmith.lang.inline import fits
from tensorsmith.lang.workload import Stage, Workload
from tensorsmith.space.sketch.rewrite import Inline, Rewrite, Rfactor, apply_rewrites, rewrite_from_json
from tensorsmith.targets.target import Target, native


@dataclass(frozen=True)
class Nest:
    """How one stage is computed. See the module's text for the loop notation."""

    stage: str
    loops: str
    vector: str | None = None
    at: str | None = None  # "D:3"; None is the root
    packed: tuple[str, ...] = ()  # tensors read in the order of this nest's loops instead of their own
    follows: str | None = None  # a copy made for that nest: its loops are that nest's, and so are their sizes

    @functools.cached_property
    def outer(self) -> tuple[str, ...]:
        return tuple(loop.rstrip("!") for loop in self.loops.split("|")[0].split())

    @functools.cached_property
    def unrolled(self) -> frozenset[str]:
        """Loops whose steps are laid out one by one, whatever is inside."""
        return frozenset(loop[:-1] for loop in self.loops.split() if loop.endswith("!"))

    @functools.cached_property
    def tile(self) -> tuple[str, ...]:
        return tuple(loop.rstrip("!") for loop in self.loops.split("|")[1].split()) if "|" in self.loops else ()

    @functools.cached_property
    def parts(self) -> dict[str, int]:
        """How many parts each axis is split into."""
        found: dict[str, int] = {}
        for loop in self.outer + self.tile:
            axis = loop.rpartition(".")[0]
            found[axis] = found.get(axis, 0) + 1
        return found

    @property
    def target(self) -> tuple[str, int] | None:
        """The stage this one is attached to, and inside how many of its outer loops."""
        if self.at is None:
            return None
        stage, _, depth = self.at.rpartition(":")
        if not (depth.isascii() and depth.isdigit()):
            raise UserError(f"nest of {self.stage}: attached at {self.at!r}; write STAGE:DEPTH, as in D:3")
        return stage, int(depth)

    def size_holes(self) -> tuple[str, ...]:
        if self.follows is not None:
            return ()
        return tuple(f"{self.stage}.{axis}.{p}" for axis, n in self.parts.items() for p in range(1, n))


@dataclass(frozen=True)
class Choice:
    """A hole that changes the structure: `kind` is "at", "loops", "factor" or "rows"; options as they appear in a nest or rewrite.

    "rows" places several stages at once, the `members`, all at the same depth of the stage (0: at the root).
    """

    stage: str
    kind: str
    options: tuple[str, ...]
    members: tuple[str, ...] = ()

    @property
    def hole(self) -> str:
        return f"{self.stage}.{self.kind}"


@dataclass(frozen=True)
class Sketch:
    """A structure for a workload: rewrites of the DAG, then a nest for every stage that is left, and what is open in them."""

    workload: Workload
    nests: tuple[Nest, ...]
    rewrites: tuple[Rewrite, ...] = ()
    choices: tuple[Choice, ...] = ()

    @functools.cached_property
    def rewritten(self) -> Workload:
        """The workload the nests refer to."""
        return apply_rewrites(self.workload, self.rewrites)

    @functools.cached_property
    def _rewritten(self) -> dict[tuple[tuple[Rewrite, ...], tuple[str, ...]], tuple[tuple[Rewrite, ...], Workload]]:
        return {}

    def _rewritten_by(self, rewrites: tuple[Rewrite, ...], inlined: tuple[str, ...]) -> tuple[tuple[Rewrite, ...], Workload]:
        """The workload after rewrites and the inlining of such of those stages as still fit, and what was done: few, and shared by
        many resolved structures."""
        known = self._rewritten.get((rewrites, inlined))
        if known is None:
            done, workload = list(rewrites), apply_rewrites(self.workload, rewrites)
            for name in inlined:
                if fits(workload, name):
                    done.append(Inline(name))
                    workload = apply_rewrites(workload, done[-1:])
            known = self._rewritten[rewrites, inlined] = tuple(done), workload
        return known

    def nest(self, stage: str) -> Nest:
        return self._nests[stage]

    @functools.cached_property
    def _nests(self) -> dict[str, Nest]:
        return {n.stage: n for n in self.nests}

    @functools.cached_property
    def holes(self) -> tuple[str, ...]:
        """The names of all open numbers."""
        names: list[str] = []
        for nest in self.nests:
            names.extend(nest.size_holes())
            if nest.at is None:
                names.append(f"{nest.stage}.parallel")
            if self.rewritten.stage(nest.stage).reduction:
                names.append(f"{nest.stage}.unroll")
        return tuple(names)

    def resolve(self, options: Mapping[str, int]) -> Sketch:
        """This sketch with an option taken for every choice; a stage that cannot be where it was put goes to the root."""
        if not self.choices:
            return self  # also keeps the loops of copies that were written by hand
        nests = dict(self._nests)
        rewrites = list(self.rewrites)
        inlined: list[str] = []
        for choice in self.choices:
            option = choice.options[int(options[choice.hole])]
            if choice.kind == "factor":
                rewrites = [
                    replace(r, factor=int(option)) if isinstance(r, Rfactor) and r.stage == choice.stage else r for r in rewrites
                ]
            elif choice.kind == "loops":
                nests[choice.stage] = replace(nests[choice.stage], loops=option)
            elif choice.kind == "rows":
                for name in choice.members:
                    nests[name] = replace(nests[name], at=None if option == "0" else f"{choice.stage}:{option}")
            elif option == "inline":
                inlined.append(choice.stage)
            else:
                nests[choice.stage] = replace(nests[choice.stage], at=None if option == "root" else option)
        done, workload = self._rewritten_by(tuple(rewrites), tuple(inlined))
        nests = {name: nest for name, nest in nests.items() if workload.is_stage(name)}
        for nest in [n for n in nests.values() if n.follows]:
            nests[nest.stage] = follow(workload, nests, nest)
        while True:
            sketch = Sketch(self.workload, tuple(nests.values()), done)
            sketch.__dict__["rewritten"] = workload  # as the property would find it
            try:
                return sketch.check()
            except Misplaced as problem:
                nests[problem.stage] = replace(nests[problem.stage], at=None)

    def attached(self, stage: str, depth: int) -> tuple[Nest, ...]:
        """The nests attached at that depth of a stage, producers first."""
        found = [n for n in self.nests if n.target == (stage, depth)]
        order = [s.name for s in self.rewritten.stages]
        return tuple(sorted(found, key=lambda n: order.index(n.stage)))

    def check(self) -> Sketch:
        """Raises `UserError` where the structure makes no sense; gives itself back."""
        stages = {s.name for s in self.rewritten.stages}
        if {n.stage for n in self.nests} != stages or len(self.nests) != len(stages):
            raise UserError(f"a sketch needs one nest for each of {sorted(stages)}, got {[n.stage for n in self.nests]}")
        for nest in self.nests:
            _check_nest(self, nest)
        return self

    def to_json(self) -> dict[str, Any]:
        return {
            "rewrites": [r.to_json() for r in self.rewrites],
            "nests": [
                {"stage": n.stage, "loops": n.loops}
                | ({"vector": n.vector} if n.vector else {})
                | ({"at": n.at} if n.at else {})
                | ({"packed": list(n.packed)} if n.packed else {})
                | ({"follows": n.follows} if n.follows else {})
                for n in self.nests
            ],
        }

    @staticmethod
    def from_json(workload: Workload, data: Mapping[str, Any]) -> Sketch:
        try:
            nests = tuple(
                Nest(
                    str(n["stage"]),
                    str(n["loops"]),
                    str(n["vector"]) if "vector" in n else None,
                    str(n["at"]) if "at" in n else None,
                    tuple(map(str, n.get("packed", ()))),
                    str(n["follows"]) if "follows" in n else None,
                )
                for n in data["nests"]
            )
            rewrites = tuple(rewrite_from_json(r) for r in data["rewrites"])
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise UserError(f"malformed sketch: {type(problem).__name__}: {problem}") from problem
        return Sketch(workload, nests, rewrites).check()

    def __str__(self) -> str:
        from tensorsmith.space.sketch.text import show

        return show(self)

    def brief(self) -> str:
        """One line per rewrite, nest and choice, in the notation in which they are written."""
        lines = [f"{r}" for r in self.rewrites]
        for n in self.nests:
            extra = "".join(
                f" {word} {value}"
                for word, value in (
                    ("vector", n.vector),
                    ("at", n.at),
                    ("packed", " ".join(n.packed)),
                    ("follows", n.follows),
                )
                if value
            )
            lines.append(f"{n.stage}: {n.loops}{extra}")
        for c in self.choices:
            lines.append(f"{c.hole} in {' / '.join(c.options)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Candidate:
    """A sketch with a value for every hole: complete, can be lowered."""

    sketch: Sketch
    decisions: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        missing = [h for h in self.sketch.holes if h not in self.decisions]
        unknown = [h for h in self.decisions if h not in self.sketch.holes]
        if missing or unknown:
            raise UserError(f"decisions do not fit the sketch: missing {missing}, unknown {unknown}")
        bad = {h: v for h, v in self.decisions.items() if v < (0 if h.endswith(".parallel") else 1)}
        if bad:
            raise UserError(f"decisions must be at least 1 (0 for parallel): {bad}")

    def to_json(self) -> dict[str, Any]:
        return {"sketch": self.sketch.to_json(), "decisions": dict(self.decisions)}

    def explain(self, target: Target | None = None) -> str:
        """What the program of this candidate will ask of the machine: registers, loads, traffic, balance, and what bounds it."""
        from tensorsmith.backends.cpu.explain import explain

        return explain(self, target or native())

    @staticmethod
    def from_json(workload: Workload, data: Mapping[str, Any]) -> Candidate:
        """A candidate of a JSON form, validated: safe on data from strangers."""
        try:
            decisions = {str(k): int(v) for k, v in data["decisions"].items()}
            sketch = data["sketch"]
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise UserError(f"malformed candidate: {type(problem).__name__}: {problem}") from problem
        return Candidate(Sketch.from_json(workload, sketch), decisions)


def follow(workload: Workload, nests: Mapping[str, Nest], copy: Nest) -> Nest:
    """A copy's nest with the loops of the nest it follows that run inside its attach point, rows of the original in order.

    Along the rows of what the copy itself reads the innermost loop runs, even if those are columns here (a transpose).
    """
    reader = nests[str(copy.follows)]
    own = [(loop.rpartition(".")[0], reader.stage, n) for n, loop in enumerate(reader.outer)]
    own += [(loop.rpartition(".")[0], reader.stage, len(reader.outer)) for loop in reader.tile]
    if reader.target is not None:  # the tiles around it are those of its elementwise reader, axis by axis
        owner, depth = reader.target
        renamed = dict(zip((a.name for a in workload.stage(owner).axes), (a.name for a in workload.stage(reader.stage).axes)))
        own = [(renamed[loop.rpartition(".")[0]], owner, n) for n, loop in enumerate(nests[owner].outer[:depth])] + own
    if copy.target is not None:
        stage, depth = copy.target
        inside = [x for x in own if x[1] == stage and x[2] >= depth]
        own = inside + ([x for x in own if x[1] == reader.stage] if stage != reader.stage else [])
    counts = {a.name: sum(1 for x in own if x[0] == a.name) for a in workload.stage(copy.stage).axes}
    # lanes run along what the reader's register tile holds of the copy: short, and neighbours there
    spatial = {a.name for a in workload.stage(reader.stage).axes}
    held = [a for a in counts if a in spatial and f"{a}.{reader.parts[a] - 1}" in reader.tile]
    lanes = (reader.vector or "").rpartition(".")[0]
    free = [a for a in counts if counts[a]]  # an axis of one element may be fixed where the copy is made; perhaps all are
    along = lanes if lanes in held else (held or free or [""])[-1]
    vector = f"{along}.{counts[along] - 1}" if along else None
    body = workload.stage(copy.stage).body
    row = body.indices[-1] if isinstance(body, Load) and body.indices else None
    order = sorted(counts, key=lambda a: isinstance(row, Var) and row.name == a and a != along)
    loops = [f"{a}.{n}" for a in order for n in range(counts[a])]
    return replace(copy, loops=f"{' '.join(n for n in loops if n != vector)} | {vector or ''}".rstrip(), vector=vector)


class Misplaced(Refusal):
    """A stage is attached where not all of its readers can see it."""

    def __init__(self, stage: str, detail: str) -> None:
        super().__init__("reader outside", detail)
        self.stage = stage


def _check_nest(sketch: Sketch, nest: Nest) -> None:
    where = f"nest of {nest.stage}"
    stage: Stage = sketch.rewritten.stage(nest.stage)
    names = {a.name for a in stage.all_axes}
    seen: dict[str, int] = {}
    for loop in nest.outer + nest.tile:
        axis, _, part = loop.rpartition(".")
        if axis not in names:
            raise UserError(f"{where}: the loop {loop!r} is of no axis of the stage, which has {sorted(names)}")
        if part != str(seen.get(axis, 0)):
            raise UserError(f"{where}: the parts of axis {axis} must come in order 0, 1, ...; got {loop!r}")
        seen[axis] = int(part) + 1
    if nest.loops.count("|") > 1:
        raise UserError(f"{where}: {nest.loops!r} has more than one bar")
    spatial = [axis for axis in (loop.rpartition(".")[0] for loop in nest.tile) if axis in {a.name for a in stage.axes}]
    for axis in spatial:
        if spatial.count(axis) > 1:
            raise UserError(f"{where}: the register tile has more than one loop of axis {axis}; put the outer ones before the bar")
    missing = names - set(seen)
    if missing and nest.follows is None:  # a copy has no loop for an axis that is fixed where it is made
        raise UserError(f"{where}: no loop for the axes {sorted(missing)}")
    if nest.vector is not None and nest.vector not in nest.tile:
        raise UserError(f"{where}: the vector loop {nest.vector!r} must be one of the register tile's: {nest.tile}")
    if nest.vector is not None:
        axis, _, part = nest.vector.rpartition(".")
        if int(part) != seen[axis] - 1:
            raise UserError(f"{where}: the vector loop {nest.vector!r} must be the last part of its axis")
    for tensor in nest.packed:
        if tensor not in {x.tensor for x in stage.reads}:
            raise UserError(f"{where}: {tensor!r} is to be packed, but the stage does not read it")
    if nest.follows is not None:
        _check_followed(sketch, nest)
    target = nest.target
    if target is None:
        return
    if nest.stage in sketch.rewritten.outputs:
        raise UserError(f"{where}: an output is computed at the root, not inside {target[0]}")
    if target[0] not in {n.stage for n in sketch.nests}:
        raise UserError(f"{where}: attached to the unknown stage {target[0]!r}")
    if not 0 < target[1] <= len(sketch.nest(target[0]).outer) and not (target[1] == 0 == len(sketch.nest(target[0]).outer)):
        raise UserError(
            f"{where}: attached at depth {target[1]} of {target[0]}, which has {len(sketch.nest(target[0]).outer)} outer loops"
        )
    for reader in sketch.rewritten.consumers[nest.stage]:
        if not is_inside(sketch, reader, target):
            raise Misplaced(nest.stage, f"{nest.stage} is attached at {nest.at} but read by {reader}")


def _check_followed(sketch: Sketch, copy: Nest) -> None:
    """A copy runs in the loops of a stage that reads it, and of the one that is inside of."""
    where = f"nest of {copy.stage}"
    nests = {n.stage: n for n in sketch.nests}
    if copy.follows not in sketch.rewritten.consumers[copy.stage] or nests[copy.follows].follows is not None:
        raise UserError(f"{where}: it follows {copy.follows!r}, which is no stage with loops of its own that reads it")
    target = nests[copy.follows].target
    if target is not None and target[0] in nests:
        owner, depth = target
        around = {loop.rpartition(".")[0] for loop in nests[owner].outer[:depth]}
        count = len(sketch.rewritten.stage(copy.follows).axes)
        if not around <= {a.name for a in sketch.rewritten.stage(owner).axes[:count]}:
            raise UserError(f"{where}: the loops around {copy.follows}, which it follows, are not of axes that both have")


def is_inside(sketch: Sketch, stage: str, point: tuple[str, int]) -> bool:
    """Whether a stage runs inside the first `depth` outer loops of the point's stage."""
    current: tuple[str, int] | None = (stage, len(sketch.nest(stage).outer))
    for _ in sketch.nests:  # no longer than that, even if stages are attached to each other in a circle
        if current is None:
            break
        if current[0] == point[0]:
            return current[1] >= point[1]
        current = sketch.nest(current[0]).target
    return False
