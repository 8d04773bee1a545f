"""Executables of whole networks: right answers, in whatever way they are called."""

from __future__ import annotations

import dataclasses
import os
import threading
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from tests.property.schedules import random_candidate
from tests.rewrites.test_formulations import SAME
from tests.runtime.networks import compiled, graphs, perceptron, random

from tensorsmith.backends import rule_set, space_of
from tensorsmith.build import build_best, build_kernel
from tensorsmith.errors import InternalError, Refusal, UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.graph.graph import Graph
from tensorsmith.lang import define
from tensorsmith.lang.compare import random_inputs
from tensorsmith.lang.define import compute, placeholder, reduce_axis, workload
from tensorsmith.lang.evaluate import evaluate as evaluate_workload
from tensorsmith.lang.inplace import replaceable_inputs
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import elementwise
from tensorsmith.rewrites.formulations import Formulation, formulations
from tensorsmith.runtime.arguments import Argument
from tensorsmith.runtime.buffers import aligned_copy
from tensorsmith.runtime.built import ARENA, CONSTANT, INPUT, OUTPUT, Kernel, Network, Place, Step
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

GRAPH = perceptron()
NETWORK = compiled(GRAPH)


def check(executable: Executable, graph: Graph, inputs: dict[str, np.ndarray]) -> None:
    wanted, given = evaluate(graph, inputs), executable.run(inputs)
    assert list(wanted) == list(given)
    for name, array in wanted.items():
        assert given[name].dtype == array.dtype
        scale = float(np.abs(array).max(initial=1))
        np.testing.assert_allclose(given[name], array, rtol=1e-4, atol=1e-5 * scale, err_msg=name)


def test_the_outputs_are_those_of_the_graph():
    for _ in range(3):
        check(NETWORK, GRAPH, {"x": random(4, 24)})


def test_inputs_and_outputs_by_position_and_by_name():
    x = random(4, 24)
    by_position, by_name = NETWORK(x), NETWORK(x=x)
    assert isinstance(by_position, tuple) and len(by_position) == 5
    assert all(np.array_equal(a, b) for a, b in zip(by_position, by_name))
    out = {o.name: np.empty(o.shape, np.float32) for o in reversed(NETWORK.outputs)}
    results = NETWORK(x, out=out)
    assert all(r is out[o.name] and np.array_equal(r, a) for r, o, a in zip(results, NETWORK.outputs, by_position))
    with pytest.raises(UserError, match="out has arrays for y, the outputs of perceptron are y, y again, flat, x itself, weights"):
        NETWORK(x, out={"y": out["y"]})


def test_results_are_not_overwritten_by_the_next_call():
    a, b = random(4, 24), random(4, 24)
    first = NETWORK(a)
    kept = [r.copy() for r in first]
    NETWORK(b)
    assert all(np.array_equal(r, k) for r, k in zip(first, kept))
    assert not np.shares_memory(NETWORK.run({"x": a})["x itself"], a)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), r"perceptron takes 1 input \(x\), 0 given"),
        ((random(4, 23),), r"x must have shape \(4, 24\), \(4, 23\) given"),
        ((random(4, 24).astype(float),), "x must be f32, f64 given"),
        (([1.0],), "x is a list; give a NumPy array"),
    ],
)
def test_wrong_inputs(arguments, message):
    with pytest.raises(UserError, match=message):
        NETWORK(*arguments)
    with pytest.raises(UserError, match="has no input 'z'"):
        NETWORK.run({"z": 1})


def test_inputs_need_not_be_contiguous():
    x = random(24, 4)
    assert np.array_equal(NETWORK(x.T)[0], NETWORK(np.ascontiguousarray(x.T))[0])


def test_dlpack_is_not_copied():
    class Tensor:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: object) -> object:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    x = random(4, 24)
    assert np.array_equal(NETWORK(Tensor(x))[0], NETWORK(x)[0])


def test_equal_constants_are_kept_once_and_memory_is_shared():
    sizes = sorted(array.nbytes for array in NETWORK.network.constants)
    packed = 24 * 24 * 4 + 64 * 4
    assert sizes == [24 * 24 * 4, packed, packed]
    values = sum(v.bytes for node in GRAPH.nodes for v in node.outputs)
    assert 0 < NETWORK.memory.arena <= 2 * 384 < values
    assert NETWORK.memory.constants == sum(sizes)
    assert "arena" in str(NETWORK.memory)


def test_several_python_threads():
    inputs = [random(4, 24) for _ in range(4)]
    wanted = [NETWORK(x) for x in inputs]
    wrong = []

    def loop(n: int) -> None:
        for _ in range(100):
            if not all(np.array_equal(a, b) for a, b in zip(NETWORK(inputs[n]), wanted[n])):
                wrong.append(n)

    threads = [threading.Thread(target=loop, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and len(NETWORK._running.frames) <= 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork():
    x = random(4, 24)
    wanted = NETWORK(x)[0]
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(NETWORK(x)[0], wanted) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_scratch_grows_with_the_threads():
    b = Builder("wide")
    x = b.input("x", (256, 200), "f32")
    b.output("y", b.add("matmul", [b.add("matmul", [x, b.constant(random(200, 300))]), b.constant(random(300, 70))]))
    graph = b.graph()
    executable = compiled(graph)
    for threads in (1, 4, 2):
        with with_threads(threads):
            check(executable, graph, {"x": random(256, 200)})


def test_empty_and_rank_0():
    b = Builder("edges")
    x, s = b.input("x", (0, 3), "f32"), b.input("s", (), "f32")
    b.output("empty", b.add("relu", [x]))
    b.output("number", b.add("tanh", [s]))
    b.output("same", s)
    graph = b.graph()
    check(compiled(graph), graph, {"x": random(0, 3), "s": np.array(0.5, np.float32)})


def test_a_graph_that_only_hands_on():
    b = Builder("wires")
    x = b.input("x", (3,), "i64")
    unused = b.input("unused", (2,), "f32")
    b.output("x", x)
    b.output("x too", x)
    graph = b.graph()
    executable = compiled(graph)
    check(executable, graph, {"x": np.arange(3), "unused": random(2)})
    assert executable.memory.arena == 0 and unused.name in repr(executable)


@settings(max_examples=25, deadline=None)
@given(graphs())
def test_random_networks(graph):
    check(compiled(graph), graph, {"x": random(6, 6), "y": random(6, 6)})


def test_profile_names_every_step():
    profile = NETWORK.profile(rounds=3)
    assert len(profile.steps) == len(NETWORK.network.steps) and profile.seconds > 0
    names = [row.name for row in profile.kernels]
    assert sorted(names) == ["add", "copy", "matmul", "multiply", "relu", "sigmoid", "tanh"]
    assert {row.name: row.calls for row in profile.kernels} | {"matmul": 3, "relu": 2, "copy": 3} == {
        row.name: row.calls for row in profile.kernels
    }
    assert sum(row.share for row in profile.kernels) == pytest.approx(1)
    text = str(profile)
    assert text.splitlines()[0].split() == ["kernel", "calls", "time", "share", "GFLOP/s", "schedule"]
    assert "default" in text and f"perceptron: {len(profile.steps)} steps" in text


def test_benchmark_and_prepare():
    x = random(4, 24)
    prepared = NETWORK.prepare(x)
    prepared.repeat(3)
    assert all(np.array_equal(a, b) for a, b in zip(prepared.outputs, NETWORK(x)))
    assert NETWORK.benchmark(min_seconds=0.002, rounds=2).best > 0


def test_texts():
    assert "; matmul" in NETWORK.program and "define" in NETWORK.llvm_ir and "ret" in NETWORK.assembly


def test_what_may_be_overwritten():
    x, y = placeholder((4, 8), name="x"), placeholder((4, 8), name="y")
    row = placeholder((8,), name="row")
    fixed = placeholder((4, 8), name="fixed", constant=True)
    assert replaceable_inputs(workload([x, y, elementwise.add(x, y, name="o")])) == {"x", "y"}
    assert replaceable_inputs(workload([x, row, elementwise.add(x, row, name="o")])) == {"x"}
    assert replaceable_inputs(workload([x, fixed, elementwise.add(x, fixed, name="o")])) == {"x"}
    turned = compute((4, 4), lambda i, j: x[i, j] + x[j, i], name="o")
    assert replaceable_inputs(workload([x, turned])) == frozenset()
    k = reduce_axis(8, name="k")
    assert replaceable_inputs(workload([x, compute((4,), lambda i: define.sum(x[i, k], axis=k), name="o")])) == frozenset()
    total = compute((4, 8), lambda i, j: define.sum(y[i, k] * fixed[i, j], axis=k), name="total")
    assert replaceable_inputs(workload([x, y, fixed, elementwise.relu(elementwise.add(total, x), name="o")])) == {"x"}
    later = compute((4, 8), lambda i, j: elementwise.add(total, x, name="sum")[i, 7 - j] + 1.0, name="o")
    assert replaceable_inputs(workload([x, y, fixed, later])) == frozenset()
    tiled = compute((2, 2, 8), lambda a, b, j: x[a * 2 + b, j] + row[j], name="o")  # the same memory under another shape
    assert replaceable_inputs(workload([x, row, tiled])) == {"x"}
    assert replaceable_inputs(workload([x, compute((2, 2, 8), lambda a, b, j: x[b * 2 + a, j] + 1.0, name="o")])) == frozenset()
    one = placeholder((1, 8), name="one")
    assert replaceable_inputs(workload([one, compute((1, 8), lambda i, j: one[0, j] * 2.0, name="o")])) == {"one"}


SHAPE = (11, 53)


def in_place(kernel: Kernel) -> Executable:
    """A network that computes x = kernel(x, y) twice, in one place."""
    x, y, o = (Argument(n, SHAPE, "f32") for n in "xyo")
    copy = Step(None, (Place(INPUT, 0), Place(ARENA, 0)), x.bytes)
    compute = Step(0, (Place(ARENA, 0), Place(INPUT, 1), Place(ARENA, 0)))
    back = Step(None, (Place(ARENA, 0), Place(OUTPUT, 0)), x.bytes)
    return Executable(Network("in place", (x, y), (o,), (kernel,), (copy, compute, compute, back), (), x.bytes))


def gate() -> Workload:
    x, y = placeholder(SHAPE, name="x"), placeholder(SHAPE, name="y")
    return workload([x, y, compute(SHAPE, lambda i, j: x[i, j] * 0.5 + x[i, j] * y[i, j], name="o")])


def test_code_that_may_run_in_place_does_not_promise_otherwise():
    kernel = build_best(gate(), [], native())
    work = next(line for line in kernel.code.source("llvm").splitlines() if "@work0" in line and "define" in line)
    assert work.count("noalias") == 2  # scratch and local


def test_any_schedule_runs_in_place():
    """Vectors, tails, tiles that do not divide, copies in tiles: no element is read after it was overwritten."""
    a, b = random(*SHAPE), random(*SHAPE)
    once = a * 0.5 + a * b
    wanted = once * 0.5 + once * b
    built = 0
    for seed in range(40):
        try:
            kernel = build_kernel(random_candidate(gate(), Random(seed)), native())
        except Refusal:
            continue
        built += 1
        np.testing.assert_allclose(in_place(kernel)(a, b), wanted, rtol=1e-5, atol=1e-6, err_msg=f"seed {seed}")
    assert built > 15


def residual(formulation: Formulation, candidate: Candidate, inputs: dict[str, np.ndarray]) -> np.ndarray | None:
    """A convolution whose result takes the place of what is added to it; None if this code cannot."""
    kernel = build_kernel(candidate, native(), formulation=formulation)
    names = [b.name for b in formulation.original.inputs]
    if names.index("other") not in kernel.replaceable:
        return None
    constants = [aligned_copy(kernel.packers.get(names.index(n), np.asarray)(inputs[n])) for n in ("weight", "bias")]
    x, other = (Argument(n, inputs[n].shape, "f32") for n in ("x", "other"))
    places = {"x": Place(INPUT, 0), "weight": Place(CONSTANT, 0), "bias": Place(CONSTANT, 1), "other": Place(ARENA, 0)}
    steps = (
        Step(None, (Place(INPUT, 1), Place(ARENA, 0)), other.bytes),
        Step(0, (*(places[n] for n in names), Place(ARENA, 0))),
        Step(None, (Place(ARENA, 0), Place(OUTPUT, 0)), other.bytes),
    )
    network = Network("residual", (x, other), (other,), (kernel,), steps, tuple(constants), other.bytes)
    return Executable(network)(inputs["x"], inputs["other"])


@pytest.mark.parametrize("rules", ["default", "ansor"])
@pytest.mark.parametrize("name", ["square", "hanging over", "three dimensions"])
def test_any_schedule_of_a_residual_convolution_runs_in_place(name, rules):
    original = SAME[name]
    inputs = random_inputs(original, 1)
    want = evaluate_workload(original, inputs, precise=True)[original.outputs[0]]
    ran = 0
    for f in formulations(original):
        space = space_of(f.workload, native(), rule_set(rules))
        for candidate in space.candidates(sample(space, 12, np.random.default_rng(1))):
            try:
                found = residual(f, candidate, inputs)
            except Refusal:
                continue
            if found is not None:
                ran += 1
                np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4 * np.abs(want).max(), err_msg=str(candidate.sketch))
    assert ran > 10


def test_scratch_memory_lies_in_the_arena_for_as_many_threads_as_planned():
    builder = Builder("two")
    x = builder.input("x", (1, 16, 16, 16), "f32")
    for n in range(2):
        weight = builder.constant(random(3, 3, 16, 16), f"w{n}")
        x = builder.add("conv", [x, weight], stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1))
    builder.output("y", x)
    graph = builder.graph()
    executable = compiled(graph)
    network = executable.network
    assert network.arena_threads == native().cores and any(k.scratch_for(1) for k in network.kernels)
    inputs = {"x": random(1, 16, 16, 16)}
    assert executable.memory.scratch == 0
    for threads in (1, network.arena_threads, network.arena_threads + 3):
        with with_threads(threads):
            check(executable, graph, inputs)
    with with_threads(network.arena_threads + 1):
        assert executable.memory.scratch > 0


def test_an_argument_does_not_lie_in_the_scratch_memory():
    kernel = dataclasses.replace(build_best(gate(), [], native()), scratch_bytes=64)
    x, o = Argument("x", SHAPE, "f32"), Argument("o", SHAPE, "f32")
    for at, arena, message in (
        (0, x.bytes, "arena 0 has not"),
        (64, x.bytes, "arena 64 has not"),
        (64, 0, "needs 64 bytes of scratch"),
    ):
        step = Step(0, (Place(INPUT, 0), Place(INPUT, 0), Place(ARENA, at)))
        with pytest.raises(InternalError, match=message):
            Network("wrong", (x,), (o,), (kernel,), (step,), (), arena, 1).check()
    with pytest.raises(InternalError, match="room for -1 threads"):
        Network("wrong", (x,), (o,), (kernel,), (), (), 0, -1).check()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Step(7, ()), "step 0 runs kernel 7; there are 0"),
        (Step(None, (Place(INPUT, 0),), 4), "step 0 has 1 arguments, its kernel takes 2"),
        (Step(None, (Place(INPUT, 0), Place(OUTPUT, 1)), 4), "argument 1 of step 0 needs 4 bytes, output 1 has not"),
        (Step(None, (Place(INPUT, 0), Place(OUTPUT, 0)), 16), "argument 0 of step 0 needs 16 bytes, input 0 has not"),
        (Step(None, (Place(INPUT, 0), Place(ARENA, 64)), 4), "argument 1 of step 0 needs 4 bytes, arena 64 has not"),
        (Step(None, (Place(INPUT, 0), Place(ARENA, 61)), 4), "arena 61 has not"),
        (Step(None, (Place(CONSTANT, 0), Place(OUTPUT, 0)), 4), "constant 0 has not"),
        (Step(None, (Place(OUTPUT, 0), Place(INPUT, 0)), 4), "step 0 writes to input 0"),
    ],
)
def test_steps_stay_inside_their_memory(step, message):
    argument = Argument("x", (3,), "f32")
    with pytest.raises(InternalError, match=message):
        Executable(Network("wrong", (argument,), (argument,), (), (step,), (), 64))
