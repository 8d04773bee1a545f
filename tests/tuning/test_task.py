"""Tasks with real workers, which they share."""

from __future__ import annotations

from tests.measure.small import LIMITS, matmul

import tensorsmith as ts
from tensorsmith.measure import Workshop
from tensorsmith.rewrites.formulations import as_written
from tensorsmith.targets.target import native
from tensorsmith.tuning.history.experience import Experience
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.options import HowMeasured, Plugins
from tensorsmith.tuning.tasks.formulation import FormulationTuning
from tensorsmith.tuning.tasks.shared import Shared


def test_tasks_take_turns_on_the_same_workers() -> None:
    A = ts.placeholder((40, 56), name="A")
    k = ts.reduce_axis(56, name="k")
    workloads = [matmul(), ts.workload([A, ts.compute((40,), lambda i: ts.sum(A[i, k] * 3.0, axis=k), name="B")])]
    with Workshop(2, LIMITS) as workshop, Journal(None) as journal:
        measured, plugins = HowMeasured(native()), Plugins.of(native(), "random")
        shared = Shared(workshop, journal, measured, plugins, Experience(journal, measured, plugins))
        tasks = [FormulationTuning(as_written(w), shared) for w in workloads]
        processes = None
        for _ in range(2):
            for one in tasks:
                assert one.step(4) == 4
                processes = processes or workshop.processes
                assert workshop.processes == processes
        for one in tasks:  # and side by side
            assert one.propose(3) == 3
        for one, workload in zip(tasks, workloads):
            one.collect()
            one.settle()
            assert one.trials == 11 and one.pending == 0
            assert one.best_seconds and not one.failures.counts
            assert one.best().sketch.workload is workload
            assert one.times["build"] > 0 and one.times["run"] > 0 and one.times["search"] > 0
            one.close()
        assert workshop.processes == processes
