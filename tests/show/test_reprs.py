"""Whatever a user holds says in one short line what it is."""

from __future__ import annotations

import re

import pytest
from tests.show.things import EVIL, everything, matmul, model

from tensorsmith.show.line import LONGEST, cut, line, many, plain

THINGS = everything()


@pytest.mark.parametrize("kind", THINGS)
def test_a_repr_is_one_short_line_that_tells_things_apart(kind: str) -> None:
    texts = [repr(thing) for thing in THINGS[kind]]
    for thing, text in zip(THINGS[kind], texts):
        assert len(text) <= LONGEST and text.isprintable(), text
        assert not re.search(r"\b0x[0-9a-f]{6,}", text), text
        assert type(thing).__name__ in text
    assert len(set(texts)) == len(texts), texts


def test_what_some_say() -> None:
    workload = matmul()
    assert repr(workload) == f"<Workload C f32[16, 32]: 1 stage, key {workload.key[:8]}>"
    small = model()
    assert repr(small) == "<Model dense(x: f32[4, 8]) -> y: f32[4, 4]: 4 operators, 384 B of constants>"
    first, second = small.tasks()
    assert repr(first) == f"<Task matmul+relu f32[4, 8]: 1 call, key {first.workload.key[:8]}>"
    assert repr(small.tasks()) == "<Tasks of 2 tasks, 2 to tune, 2 calls>"
    assert str(small.tasks()).splitlines() == [repr(small.tasks()), f"  {first!r}", f"  {second!r}"]
    assert repr(THINGS["open models"][0]) == "<OpenModel dense(x: f32[rows, 8]): rows=4,8>"
    assert repr(THINGS["open models"][1]) == "<OpenModel dense(x: f32[rows, 8]): rows=?>"
    assert repr(THINGS["open executables"][0]) == "<OpenExecutable dense(x: f32[rows, 8]): 2 variants rows=4; rows=8>"
    assert repr(THINGS["variants"][0]).startswith(
        "<Variant rows=4: dense[rows=4](x: f32[4, 8]) -> y: f32[4, 4]: 2 kernels in 2 steps"
    )
    assert THINGS["axes"][0] is not None and repr(THINGS["axes"][0]) == "<Axis k<24>"
    assert repr(THINGS["profiles"][0]) == "<Profile net: 3 kernels in 4 steps, 16 ms>"
    assert repr(THINGS["records"][0]).startswith("<Record 12.3 us: C f32[16, 32] on x86_64/znver3/")
    assert repr(THINGS["benchmarks"][0]) == "<Benchmark best 1.0 us, median 2.0 us (1.0 us to 3.0 us), 100 runs>"


def test_the_long_form_stays_the_text() -> None:
    workload, small = matmul(), model()
    assert len(str(workload).splitlines()) == 4 and str(small).count("\n") == 5
    (sketch, *_), (candidate, *_), (program, *_) = THINGS["sketches"], THINGS["candidates"], THINGS["programs"]
    assert all(str(thing).count("\n") >= 1 for thing in (sketch, candidate, program))
    assert str(candidate).endswith(" ".join(f"{hole}={value}" for hole, value in candidate.decisions.items()))


def test_long_texts_are_cut_and_their_ends_stay() -> None:
    assert line(3, "x" * 200, ": 7 calls") == f"<int {'x' * (LONGEST - 9 - 3 - 3 - 3)}...: 7 calls>"
    assert len(line(3, "x" * 200, ": 7 calls")) == LONGEST
    assert line("", "a\nb\x1b[1m\t") == "<str a b?[1m >"
    assert plain(EVIL) == EVIL and cut("abcdef", 5) == "ab..." and cut("abc", 3) == "abc"
    assert (many(1, "call"), many(0, "call"), many(1234, "call")) == ("1 call", "0 calls", "1,234 calls")
