"""What changed from one candidate to the next is told completely, the structure before the holes."""

from __future__ import annotations

from tests.report.samples import SMALL, candidate

from tensorsmith.report.changes import changes
from tensorsmith.report.data import Change
from tensorsmith.space.sketch.rewrite import CacheWrite, Rewrite
from tensorsmith.space.sketch.sketch import Candidate, Nest, Sketch


def made(nests: tuple[Nest, ...], decisions: dict[str, int], rewrites: tuple[Rewrite, ...] = ()) -> Candidate:
    return Candidate(Sketch(SMALL, nests, rewrites).check(), decisions)


def test_equal_candidates_do_not_differ() -> None:
    assert changes(candidate(SMALL), candidate(SMALL)) == ()


def test_only_the_holes_that_differ() -> None:
    assert changes(candidate(SMALL, i=4, unroll=1), candidate(SMALL, i=8, unroll=2)) == (
        Change("C.i.1", "4", "8"),
        Change("C.unroll", "1", "2"),
    )


def test_every_part_of_a_nest() -> None:
    old = made((Nest("C", "i.0 j.0 | k.0 i.1 j.1", vector="j.1"),), {"C.i.1": 4, "C.j.1": 8, "C.parallel": 1, "C.unroll": 1})
    new = made(
        (Nest("C", "j.0 k.0 | k.1 j.1 i.0", vector="j.1", packed=("B",)),),
        {"C.j.1": 8, "C.k.1": 16, "C.parallel": 1, "C.unroll": 1},
    )
    assert changes(old, new) == (
        Change("loops of C", "i.0 j.0 | k.0 i.1 j.1", "j.0 k.0 | k.1 j.1 i.0"),
        Change("packed of C", "", "B"),
        Change("C.k.1", "", "16"),
        Change("C.i.1", "4", ""),
    )


def test_rewrites_bring_nests_and_take_them() -> None:
    rewrite = CacheWrite("C")
    name = next(s.name for s in Sketch(SMALL, (), (rewrite,)).rewritten.stages if s.name != "C")
    plain = candidate(SMALL)
    cached = made(
        (Nest(name, "k.0 | k.1 i.0 j.0", vector="j.0", at="C:2"), Nest("C", "i.0 j.0 | i.1 j.1", vector="j.1")),
        {f"{name}.k.1": 4, f"{name}.unroll": 1, "C.i.1": 4, "C.j.1": 8, "C.parallel": 1},
        (rewrite,),
    )
    assert changes(plain, cached) == (
        Change("rewrite", "", "cache_write(C)"),
        Change(f"nest of {name}", "", "k.0 | k.1 i.0 j.0"),
        Change("loops of C", "i.0 j.0 | k.0 i.1 j.1", "i.0 j.0 | i.1 j.1"),
        Change(f"{name}.k.1", "", "4"),
        Change(f"{name}.unroll", "", "1"),
        Change("C.unroll", "1", ""),
    )
    assert Change("rewrite", "cache_write(C)", "") in changes(cached, plain)
    assert Change(f"nest of {name}", "k.0 | k.1 i.0 j.0", "") in changes(cached, plain)


def test_places_are_told_by_name() -> None:
    rewrite = CacheWrite("C")
    name = next(s.name for s in Sketch(SMALL, (), (rewrite,)).rewritten.stages if s.name != "C")
    inner, outer = (Nest(name, "k.0 | k.1 i.0 j.0", vector="j.0", at=at) for at in ("C:2", None))
    last = Nest("C", "i.0 j.0 | i.1 j.1", vector="j.1")
    holes = {f"{name}.k.1": 4, f"{name}.unroll": 1, "C.i.1": 4, "C.j.1": 8, "C.parallel": 1}
    attached, root = made((inner, last), holes, (rewrite,)), made((outer, last), holes | {f"{name}.parallel": 0}, (rewrite,))
    assert changes(attached, root) == (Change(f"place of {name}", "C:2", "root"), Change(f"{name}.parallel", "", "0"))


def test_another_formulation_is_one_change() -> None:
    assert changes(candidate(SMALL, i=4), candidate(SMALL, i=8), ("direct", "winograd-4")) == (
        Change("formulation", "direct", "winograd-4"),
    )
