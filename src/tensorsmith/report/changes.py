"""What differs between two candidates, told from their JSON forms: holes, and parts of the structure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorsmith.report.data import Change
from tensorsmith.space.sketch.sketch import Candidate

_PARTS = {"loops": "loops", "vector": "vector loop", "at": "place", "packed": "packed", "follows": "copy for"}
_ROOT = "root"  # the place of a nest that stands by itself


def changes(before: Candidate, after: Candidate, formulations: tuple[str, str] = ("", "")) -> tuple[Change, ...]:
    """The structure first, then the holes, each in the order of the later candidate.

    `formulations` are the names of what the two compute; where they differ, their holes have nothing to do with each other.
    """
    if formulations[0] != formulations[1]:
        return (Change("formulation", *formulations),)
    old, new = before.to_json(), after.to_json()
    return (*_structure(old["sketch"], new["sketch"]), *_different(old["decisions"], new["decisions"]))


def _structure(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    rewrites = [[_words(r) for r in sketch["rewrites"]] for sketch in (old, new)]
    for text in rewrites[0]:
        if text not in rewrites[1]:
            yield Change("rewrite", text, "")
    for text in rewrites[1]:
        if text not in rewrites[0]:
            yield Change("rewrite", "", text)
    nests = [{n["stage"]: n for n in sketch["nests"]} for sketch in (old, new)]
    for stage in dict.fromkeys([*nests[1], *nests[0]]):
        a, b = (found.get(stage) for found in nests)
        if a is None or b is None:
            yield Change(f"nest of {stage}", "" if a is None else str(a["loops"]), "" if b is None else str(b["loops"]))
            continue
        for part, name in _PARTS.items():
            if a.get(part) != b.get(part):
                yield Change(f"{name} of {stage}", _text(a, part), _text(b, part))


def _different(old: Mapping[str, int], new: Mapping[str, int]) -> Iterator[Change]:
    for hole in dict.fromkeys([*new, *old]):
        a, b = (str(found[hole]) if hole in found else "" for found in (old, new))
        if a != b:
            yield Change(hole, a, b)


def _text(nest: Mapping[str, Any], part: str) -> str:
    value = nest.get(part, _ROOT if part == "at" else "")
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _words(rewrite: list[Any]) -> str:
    """`["rfactor", "C", "k", 4, false]` as `rfactor(C, k, 4)`"""
    kind, *rest = rewrite
    named = [str(x) for x in rest if not isinstance(x, bool)]
    return f"{kind}({', '.join(named + ['inner'] * (True in [x for x in rest if isinstance(x, bool)]))})"
