"""Intermediate tensors share memory only where none of them is needed any more."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensorsmith.backends.cpu.codegen.generate import generate
from tensorsmith.build import build
from tensorsmith.lang import define as ts
from tensorsmith.lang.workload import Workload
from tensorsmith.program.lower import lower
from tensorsmith.program.memory import place, touched
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native

N = 300


def layers(reads: list[tuple[int, ...]]) -> Workload:
    """A stage for each entry, the sum of these earlier ones (0 is the input), rotated, so that none can take another's place."""
    a = ts.placeholder((N,), name="A")
    made = [a]
    for n, sources in enumerate(reads):
        name = "out" if n == len(reads) - 1 else f"t{n}"
        terms = [made[s] for s in sources]

        def value(i, terms=terms):
            total = terms[0][(i + 1) % N]
            for t in terms[1:]:
                total = total + t[(i + 1) % N]
            return total * 0.5

        made.append(ts.compute((N,), value, name=name))
    return ts.workload([a, made[-1]])


def expected(reads: list[tuple[int, ...]], x: np.ndarray) -> np.ndarray:
    made = [x]
    for sources in reads:
        total = np.roll(made[sources[0]], -1)
        for s in sources[1:]:
            total = total + np.roll(made[s], -1)
        made.append(total * np.float32(0.5))
    return made[-1]


def test_a_chain_takes_the_memory_of_two():
    chain = [(n,) for n in range(8)]
    program = lower(plain_candidate(layers(chain)))
    one = 4 * N
    assert 2 * one <= generate(program, native()).scratch_bytes < 3 * one + 1024
    x = np.random.default_rng(0).uniform(-1, 1, N).astype(np.float32)
    np.testing.assert_array_equal(build(plain_candidate(layers(chain)))(x), expected(chain, x))


@st.composite
def networks(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Every stage reads the one before it, so that none is dead, and perhaps others."""
    count = draw(st.integers(2, 7))
    return [(n, *draw(st.lists(st.integers(0, n), max_size=2))) for n in range(count)]


@given(reads=networks(), data=st.data())
def test_what_lives_together_lies_apart(reads, data):
    program = lower(plain_candidate(layers(reads)))
    names = [b.name for b in program.buffers.values() if b.kind == "scratch"]
    sizes = {name: 64 * data.draw(st.integers(1, 5)) for name in names}
    offsets, total = place(program, sizes)
    nests = [touched(node) for node in program.body]
    lives = {name: [n for n, found in enumerate(nests) if name in found] for name in names}
    for name in names:
        assert offsets[name] % 64 == 0 and 0 <= offsets[name] <= total - sizes[name]
        for other in names:
            apart = offsets[name] + sizes[name] <= offsets[other] or offsets[other] + sizes[other] <= offsets[name]
            assert name == other or apart or lives[name][-1] < lives[other][0] or lives[other][-1] < lives[name][0]
    assert total <= sum(sizes.values())
