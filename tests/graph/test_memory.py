"""The memory plan: what lives at the same time never overlaps, and memory is not wasted."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorsmith.errors import InternalError
from tensorsmith.graph import memory
from tensorsmith.graph.memory import ALIGNMENT, PAGE, Use, View, placed, plan, root


def program(random: Random) -> tuple[list[Use], dict[str, int], dict[str, View], set[str]]:
    """Calls in order, each reading what is there; some results have views, whole or pieces, some are pieces of what several calls
    write, some lie elsewhere."""
    sizes, views, elsewhere, there = {"input": 100}, {}, {"input"}, ["input"]
    open_parts: dict[str, int] = {}  # values that calls have begun to write, and how many of their bytes
    uses: list[Use] = []
    for n in range(random.randint(1, 20)):
        reads = tuple(random.choices(there[-6:], k=random.randint(1, 3)))
        writes = tuple(f"v{n}.{k}" for k in range(random.choice([1, 1, 1, 2])))
        for name in writes:
            sizes[name] = random.choice([0, 4, 64, 100, 128, 128, 1000])
            there.append(name)
            if random.random() < 0.25 and sizes[name]:
                whole = random.choice([*open_parts, f"{name}.whole"])
                views[name] = View(whole, open_parts.get(whole, 0))
                sizes[whole] = open_parts[whole] = open_parts.get(whole, 0) + sizes[name]
                if random.random() < 0.1:
                    elsewhere.add(whole)
            elif random.random() < 0.15:
                elsewhere.add(name)
            if random.random() < 0.3:
                views[f"{name}.view"], sizes[f"{name}.view"] = View(name), sizes[name]
                there.append(f"{name}.view")
            if random.random() < 0.3 and sizes[name] > 8:
                views[f"{name}.piece"], sizes[f"{name}.piece"] = View(name, 4), sizes[name] - 8
                there.append(f"{name}.piece")
        scratch = random.choice([0, 0, 40, 500])
        uses.append(Use(reads, writes, frozenset(r for r in reads if random.random() < 0.6), scratch))
    return uses, sizes, views, elsewhere


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_running_the_plan_never_destroys_a_value_that_is_still_needed(seed) -> None:
    """The plan is run on a real arena in which every byte says whose it is."""
    uses, sizes, views, elsewhere = program(Random(seed))
    bases = sorted({root(name, views) for use in uses for name in use.writes} - elsewhere)
    lasting = Random(seed).sample(bases, len(bases) // 4)
    with patch.object(memory, "_LONG", seed % 7):  # most lives are short, or most are long
        found = plan(uses, sizes, views, elsewhere, lasting)
    numbers = {name: n for n, name in enumerate(sizes)}
    owner = np.full(found.bytes, -1)
    for use in uses:
        for name in use.reads:
            view = placed(name, views)
            if view.base not in elsewhere:
                at = found.offsets[name]
                assert found.offsets[view.base] % ALIGNMENT == 0 and at == found.offsets[view.base] + view.offset
                assert (owner[at : at + sizes[name]] == numbers[view.base]).all(), f"{name} was overwritten before {use}"
                assert at >= use.scratch or not sizes[name]
        assert use.scratch <= found.bytes
        owner[: use.scratch] = -2
        for name in use.writes:
            if root(name, views) in elsewhere:
                assert name not in found.offsets
                continue
            at = found.offsets[name]
            assert at + sizes[name] <= found.bytes and (at >= use.scratch or not sizes[name])
            for read in use.reads:
                if root(read, views) in elsewhere:
                    continue
                start = found.offsets[read]
                if max(start, at) < min(start + sizes[read], at + sizes[name]):
                    # only in place: all of it, at the same address, where the call said so
                    assert start == at == found.offsets[root(read, views)] and read in use.replaceable and len(use.writes) == 1
            owner[at : at + sizes[name]] = numbers[root(name, views)]
        for name in use.writes:  # several results do not overlap each other
            if root(name, views) not in elsewhere:
                assert (owner[found.offsets[name] : found.offsets[name] + sizes[name]] == numbers[root(name, views)]).all()
    for name in (name for use in uses for name in use.writes if root(name, views) in lasting):  # read when all calls are done
        at = found.offsets[name]
        assert (owner[at : at + sizes[name]] == numbers[root(name, views)]).all(), f"{name} does not last"


def chain(length: int, size: int, in_place: bool) -> tuple[list[Use], dict[str, int]]:
    names = [f"v{n}" for n in range(length)]
    uses = [Use(("x",), ("v0",))]
    uses += [Use((a,), (b,), frozenset({a} if in_place else ())) for a, b in pairwise(names)]
    return uses, {"x": size, **dict.fromkeys(names, size)}


def test_a_chain_takes_two_places_and_in_place_one() -> None:
    assert plan(*chain(9, 1024, False), {}, {"x"}).bytes == 2048
    assert plan(*chain(9, 1024, True), {}, {"x"}).bytes == 1024


def test_values_of_whole_pages_begin_at_different_places_of_theirs():
    """A kernel's operands and its result: at equal places, loads would wait for stores that have nothing to do with them."""
    names = ["a", "b", "c", "d"]
    uses = [Use(("x",), (name,)) for name in names[:3]] + [Use(("a", "b", "c"), ("d",))]
    found = plan(uses, dict.fromkeys(["x", *names], 3 * PAGE), {}, {"x"})
    places = sorted(found.offsets[name] % PAGE for name in names)
    gaps = [(b - a) % PAGE for a, b in zip(places, places[1:] + places[:1])]
    assert min(gaps) >= 512
    assert found.bytes <= 4 * 4 * PAGE


def test_small_values_fit_into_the_tightest_gap() -> None:
    # big and mid live together; when mid is gone, small ones take its place instead of growing the arena
    uses = [
        Use(("x",), ("big",)),
        Use(("x",), ("mid",)),
        Use(("mid",), ("a",)),
        Use(("a", "big"), ("b",)),
        Use(("b", "big"), ("c",)),
    ]
    sizes = {"x": 64, "big": 3072, "mid": 1024, "a": 512, "b": 512, "c": 512}
    assert plan(uses, sizes, {}, {"x"}).bytes == 3072 + 1024 + 512


def test_scratch_memory_takes_the_place_of_values_that_are_gone() -> None:
    uses, sizes = chain(4, 1024, False)
    uses[-1] = Use(uses[-1].reads, uses[-1].writes, scratch=512)
    assert plan(uses, sizes, {}, {"x"}).bytes == 2048 + 512
    uses, sizes = chain(4, 1024, True)
    uses[0] = Use(uses[0].reads, uses[0].writes, scratch=4096)
    uses[1] = Use((*uses[1].reads, "x"), uses[1].writes, scratch=1024)
    sizes |= {"v1": 2048, "v2": 2048, "v3": 2048}
    assert plan(uses, sizes, {}, {"x"}).bytes == 4096 + 1024  # v1 and the rest lie where the scratch memory was


def test_not_in_place_while_another_reader_comes_later() -> None:
    uses = [Use(("x",), ("a",)), Use(("a",), ("b",), frozenset({"a"})), Use(("a", "b"), ("c",))]
    found = plan(uses, dict.fromkeys("xabc", 64), {}, {"x"})
    assert len({found.offsets[n] for n in "abc"}) == 3


def test_not_in_place_where_a_view_of_the_operand_is_read_differently() -> None:
    uses = [Use(("x",), ("a",)), Use(("a", "a.t"), ("b",), frozenset({"a"}))]
    found = plan(uses, {**dict.fromkeys("xab", 64), "a.t": 64}, {"a.t": View("a")}, {"x"})
    assert found.offsets["a"] != found.offsets["b"]


def test_not_in_place_of_what_the_operand_is_a_piece_of() -> None:
    """A piece of a slot that begins with it, and is as large but for the slot's rounding, is still not all of it."""
    for view, size in ((View("a", 4), 64), (View("a"), 63)):
        uses = [Use(("x",), ("a",)), Use(("piece",), ("b",), frozenset({"piece"}))]
        found = plan(uses, {"x": 64, "a": 64, "b": 64, "piece": size}, {"piece": view}, {"x"})
        assert found.offsets["a"] != found.offsets["b"]


def test_what_several_calls_write_lives_from_the_first_to_the_last_reader() -> None:
    """A recurrence: each step reads the state before, and writes its own into the one value that has all of them."""
    steps, size = 8, 64
    views = {f"h{n}": View("all", n * size) for n in range(steps)}
    uses = [Use(("x",), ("h0",))]
    uses += [Use((f"h{n - 1}",), (f"h{n}",), frozenset({f"h{n - 1}"})) for n in range(1, steps)]
    uses += [Use(("all",), ("y",))]
    sizes = {"x": size, "all": steps * size, "y": size} | dict.fromkeys(views, size)
    found = plan(uses, sizes, views, {"x"})
    assert [found.offsets[f"h{n}"] - found.offsets["all"] for n in range(steps)] == [n * size for n in range(steps)]
    assert found.bytes == steps * size + size
    assert plan(uses, sizes, views, {"x", "all"}).offsets.keys() == {"y"}


@pytest.mark.parametrize("alive", [1, 400])
def test_a_plan_looks_at_each_pair_of_values_that_live_together_once(alive, monkeypatch) -> None:
    """Counts how many neighbours are looked at: values that all live to the end meet each other, and short ones a few."""
    looked = 0
    usual = sorted

    def counting(values, key):
        nonlocal looked
        values = list(values)
        looked += len(values)
        return usual(values, key=key)

    monkeypatch.setattr(memory, "sorted", counting, raising=False)
    calls = 400
    uses = [Use(("x",), (f"v{n}",)) for n in range(calls)]
    uses += [Use(tuple(f"v{n}" for n in range(calls) if alive > 1) or ("x",), ("y",))]
    plan(uses, {"x": 64, "y": 64} | {f"v{n}": 64 for n in range(calls)}, {}, {"x"})
    orders = 2  # in which slots are placed, and once more each to sort them
    assert looked <= 2 * orders * (alive * (alive + 1) // 2 + 2 * calls)


def test_mistakes_are_named() -> None:
    with pytest.raises(InternalError, match="call 0 reads 'a', which no call before it writes"):
        plan([Use(("a",), ("b",))], {"a": 4, "b": 4}, {}, ())
    with pytest.raises(InternalError, match="writes 'a', which has its value already"):
        plan([Use((), ("a",)), Use((), ("a",))], {"a": 4}, {}, ())
    with pytest.raises(InternalError, match="writes 'v', which has its value already"):
        plan([Use((), ("a",)), Use((), ("v",))], {"a": 4, "v": 4}, {"v": View("a")}, ())
    with pytest.raises(InternalError, match="a view of itself"):
        root("a", {"a": View("b"), "b": View("a")})
