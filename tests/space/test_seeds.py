"""Seeds from the target's facts."""

import numpy as np
import pytest

from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.space.population.seeds import seeds
from tensorsmith.targets.target import native


@pytest.mark.parametrize("name", [*catalogue.small(), *catalogue.cases(1)])
def test_seeds_lower_and_are_few(name):
    space = space_of(catalogue.get(name).workload(), native())
    found = seeds(space)
    assert [p.plan for p in found] == list(range(len(space.plans)))
    for p in found:
        assert 1 <= len(p) <= 40
        for row in p.matrix[::5]:
            lower(space.plans[p.plan].candidate(row))


def test_the_same_every_time():
    space = space_of(catalogue.get("ConvLayer-2-b1").workload(), native())
    assert all(np.array_equal(a.matrix, b.matrix) for a, b in zip(seeds(space), seeds(space)))


def test_the_default_schedule_is_among_them():
    space = space_of(catalogue.get("C2D-3-b1").workload(), native())
    found = space.find(default_candidate(space.workload, space.target))
    assert found is not None
    assert (seeds(space)[found[0]].matrix == found[1]).all(axis=1).any()


def test_a_thread_may_copy_its_own_panel():
    target = native()
    space = space_of(catalogue.get("GMM-3-b1").workload(), target)
    private = [
        (plan, row)
        for p in seeds(space)
        for plan, row in ((space.plans[p.plan], row) for row in p.matrix)
        if any(nest.at is not None and nest.follows == "matmul" for nest in plan.candidate(row).sketch.nests)
    ]
    assert private
    for plan, row in private:
        (copy,) = [n for n in plan.candidate(row).sketch.nests if n.at is not None]
        numbers = plan.candidate(row).decisions
        i, j = (numbers.get(f"matmul.{axis}.1", 1) * numbers[f"matmul.{axis}.2"] for axis in "ij")
        panel, across = (j, i) if copy.stage == "b.pack" else (i, j)
        assert across >= 512  # one copy, and all it is used for
        assert 4 * panel * min(512, numbers.get("matmul.k.1", 512)) <= target.l2_bytes
