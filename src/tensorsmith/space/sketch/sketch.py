"""Sketches, candidates and the holes between them.

A sketch says how every stage of a workload is computed, with the numbers left open:

    Nest("C", "i.0 j.0 k.0 i.1 j.1 | k.1 i.2 j.2", vector="j.2")      see `nest.py` for the notation

Its *holes* are open numbers such as `C.i.1`, the size of a tile, or `C.parallel`; `space/holes/` has a file for each kind. A
candidate is a sketch with a value for every hole; the values are plain integers, or one array each for a whole population.

A derived sketch may also have *choices*: holes that change the structure itself, each with a list of options, such as `P.at`,
where a stage is computed: "root", "inline", "D:2". The value is the number of the option. `resolve` takes the options chosen and
gives a sketch without choices, which is what a candidate holds and what is stored.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.lang.inline import fits
from tensorsmith.lang.workload import Workload
from tensorsmith.show.line import line, many, page, short_digest
from tensorsmith.show.table import text
from tensorsmith.space.holes.kind import Draft, Hole
from tensorsmith.space.holes.registry import choice_kind, number_kind, number_kinds
from tensorsmith.space.sketch.check import Misplaced, check_nest
from tensorsmith.space.sketch.copies import follow
from tensorsmith.space.sketch.nest import Choice, Nest
from tensorsmith.space.sketch.rewrite import Inline, Rewrite, Rfactor, apply_rewrites, rewrite_from_json


@dataclass(frozen=True)
class Sketch:
    """A structure for a workload: rewrites of the DAG, then a nest for every stage that is left, and what is open in them."""

    workload: Workload
    nests: tuple[Nest, ...]
    rewrites: tuple[Rewrite, ...] = ()
    choices: tuple[Choice, ...] = ()
    known: Workload | None = field(default=None, compare=False, repr=False)  # what the rewrites give, if that was worked out before

    @functools.cached_property
    def rewritten(self) -> Workload:
        """The workload the nests refer to."""
        return apply_rewrites(self.workload, self.rewrites) if self.known is None else self.known

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
        return self.by_stage[stage]

    @functools.cached_property
    def by_stage(self) -> dict[str, Nest]:
        return {n.stage: n for n in self.nests}

    @functools.cached_property
    def numbers(self) -> tuple[Hole, ...]:
        """All open numbers."""
        stages = {s.name: s for s in self.rewritten.stages}
        return tuple(h for nest in self.nests for kind in number_kinds() for h in kind.holes(nest, stages[nest.stage]))

    @functools.cached_property
    def holes(self) -> tuple[str, ...]:
        """The names of all open numbers."""
        return tuple(h.name for h in self.numbers)

    @property
    def partial(self) -> dict[str, str]:
        """Of each stage that computes partial results: the one that adds them up."""
        return {r.partial: r.stage for r in self.rewrites if isinstance(r, Rfactor)}

    def draft(self, options: Mapping[str, int]) -> Draft:
        """The structure with an option taken for those choices that are given."""
        draft = Draft(dict(self.by_stage), list(self.rewrites), [])
        for choice in self.choices:
            if choice.hole in options:
                choice_kind(choice.kind).take(choice, choice.options[int(options[choice.hole])], draft)
        return draft

    def resolve(self, options: Mapping[str, int]) -> Sketch:
        """This sketch with an option taken for every choice; a stage that cannot be where it was put goes to the root."""
        if not self.choices:
            return self  # also keeps the loops of copies that were written by hand
        draft = self.draft({c.hole: options[c.hole] for c in self.choices})
        done, workload = self._rewritten_by(tuple(draft.rewrites), tuple(draft.inlined))
        nests = {name: nest for name, nest in draft.nests.items() if workload.is_stage(name)}
        for nest in [n for n in nests.values() if n.follows]:
            nests[nest.stage] = follow(workload, nests, nest)
        while True:
            sketch = Sketch(self.workload, tuple(nests.values()), done, known=workload)
            try:
                return sketch.check()
            except Misplaced as problem:
                nests[problem.stage] = replace(nests[problem.stage], at=None)

    def attached(self, stage: str, depth: int) -> tuple[Nest, ...]:
        """The nests attached at that depth of a stage, producers first."""
        found = [n for n in self.nests if n.at == (stage, depth)]
        order = [s.name for s in self.rewritten.stages]
        return tuple(sorted(found, key=lambda n: order.index(n.stage)))

    def check(self) -> Sketch:
        """Raises `UserError` where the structure makes no sense; gives itself back."""
        stages = {s.name for s in self.rewritten.stages}
        if {n.stage for n in self.nests} != stages or len(self.nests) != len(stages):
            raise UserError(f"a sketch needs one nest for each of {sorted(stages)}, got {[n.stage for n in self.nests]}")
        for nest in self.nests:
            check_nest(self, nest)
        return self

    def to_json(self) -> dict[str, Any]:
        return {
            "rewrites": [r.to_json() for r in self.rewrites],
            "nests": [
                {"stage": n.stage, "loops": str(n.loops)}
                | ({"vector": str(n.vector)} if n.vector else {})
                | ({"at": str(n.at)} if n.at else {})
                | ({"packed": list(n.packed)} if n.packed else {})
                | ({"follows": n.follows} if n.follows else {})
                | ({"also": list(n.also)} if n.also else {})
                | ({"group": str(n.group)} if n.group else {})
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
                    tuple(map(str, n.get("also", ()))),
                    str(n["group"]) if "group" in n else None,
                )
                for n in data["nests"]
            )
            rewrites = tuple(rewrite_from_json(r) for r in data["rewrites"])
        except UserError:  # it says what is wrong
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise UserError(f"malformed sketch: {type(problem).__name__}: {problem}") from problem
        return Sketch(workload, nests, rewrites).check()

    def __str__(self) -> str:
        from tensorsmith.space.sketch.text import show

        return page(show(self))

    def __repr__(self) -> str:
        counts = f"{many(len(self.nests), 'nest')}, {many(len(self.holes), 'hole')}, {many(len(self.choices), 'choice')}"
        return line(self, f"of {self.workload.title}: {counts}", f", {short_digest(self.brief())}")

    def _repr_html_(self) -> str:
        return text(str(self), title=f"sketch of {self.workload.title}", note=f"open: {' '.join(self.holes) or 'nothing'}")

    def __reduce__(self) -> tuple[object, ...]:
        """Its fields alone: what was worked out from them is worked out again."""
        return Sketch, (self.workload, self.nests, self.rewrites, self.choices)

    def brief(self) -> str:
        """One line per rewrite, nest and choice, in the notation in which they are written."""
        lines = [f"{r}" for r in self.rewrites]
        lines += [str(n) for n in self.nests]
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
        least = {h.name: number_kind(h.kind).least for h in self.sketch.numbers}
        bad = [f"{h} must be at least {least[h]}, got {v}" for h, v in self.decisions.items() if v < least[h]]
        if bad:
            raise UserError(f"decisions do not fit the sketch: {'; '.join(bad)}")

    @property
    def digest(self) -> str:
        """Eight digits that differ where candidates of one workload do."""
        return short_digest(f"{self.sketch.brief()}\n{self._numbers()}")

    def _numbers(self) -> str:
        return " ".join(f"{hole}={value}" for hole, value in self.decisions.items())

    def __str__(self) -> str:
        """The sketch in the notation in which it is written, and its numbers."""
        return page(f"{self.sketch.brief()}\n{self._numbers()}")

    def __repr__(self) -> str:
        return line(self, f"of {self.sketch.workload.title}: {self._numbers()}", f" {self.digest}")

    def _repr_html_(self) -> str:
        return text(str(self.sketch), title=f"candidate of {self.sketch.workload.title}", note=self._numbers())

    def __reduce__(self) -> tuple[object, ...]:
        return Candidate, (self.sketch, dict(self.decisions))

    def to_json(self) -> dict[str, Any]:
        return {"sketch": self.sketch.to_json(), "decisions": dict(self.decisions)}

    @staticmethod
    def from_json(workload: Workload, data: Mapping[str, Any]) -> Candidate:
        """A candidate of a JSON form, validated: safe on data from strangers."""
        try:
            decisions = {str(k): int(v) for k, v in data["decisions"].items()}
            sketch = data["sketch"]
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise UserError(f"malformed candidate: {type(problem).__name__}: {problem}") from problem
        return Candidate(Sketch.from_json(workload, sketch), decisions)
