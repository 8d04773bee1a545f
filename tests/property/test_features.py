"""Features describe the code that is generated: what they say of a program is counted in its LLVM IR."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given, note
from tests.backends.cpu.machines import target
from tests.property.agreement import describe
from tests.property.definitions import random_workload
from tests.property.generated import Nest, nests
from tests.property.schedules import random_candidate
from tests.property.tiles import Drawn, random_tiles
from tests.random_draws import SOURCES, many

from tensorsmith.backends.cpu.codegen.generate import Generated, generate
from tensorsmith.backends.cpu.features.extract import extract
from tensorsmith.backends.cpu.memory import ROOM
from tensorsmith.errors import Refusal
from tensorsmith.lang import define as ts
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, variables, walk
from tensorsmith.learn.features.rows import FeatureMatrix
from tensorsmith.program.ir import Loop, Program
from tensorsmith.program.lower import lower
from tensorsmith.space.plain import plain_candidate

TARGET = target(vector_bytes=32, registers=16)  # 8 f32 lanes


class Told:
    """The features of one statement, in their units."""

    def __init__(self, matrix: FeatureMatrix, statement: int) -> None:
        self.matrix, self.statement = matrix, statement

    def __getattr__(self, name: str) -> float:
        return round(float(self.matrix.raw(name)[0, self.statement]), 2)

    @property
    def steps(self) -> float:
        """Steps that are written one after another."""
        return max(1.0, self.unroll_steps)


# -- steps of a tile ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Code:
    """A candidate, its code and its features."""

    drawn: Drawn
    nest: Nest
    tiles: int  # that are written: once for every step of the loops around that are laid out
    matrix: FeatureMatrix

    @property
    def repeats(self) -> bool:
        """Whether an operation is the same at several points, or steps: it is written once then, and told for each of them."""
        for stage in self.drawn.candidate.sketch.workload.stages:
            axes = {a.name for a in stage.all_axes if a.extent > 1}
            parts = [e for e in walk(stage.body) if isinstance(e, Binary) and dtype(e.dtype).kind == "f"]
            parts += [stage.body]  # sums of the same are the same
            if any(not axes <= variables(e) for e in parts):
                return True
        return False


def drawn_code(rng: Random) -> Code | None:
    drawn = random_tiles(rng)
    program = lower(drawn.candidate)
    try:
        (nest,) = nests(program, generate(program, TARGET).ir)
    except Refusal:
        return None
    tiles, node = 1, program.body[0]
    while isinstance(node, Loop):
        tiles *= int(node.var.count) if node.unrolled and not node.parallel else 1
        node = node.body[-1]
    return Code(drawn, nest, tiles, extract(program, TARGET))


def wrong_about_steps(code: Code) -> list[str]:
    """What features say of a tile's steps and the code does not do."""
    nest, tiles, matrix = code.nest, code.tiles, code.matrix
    told, last = Told(matrix, 0), Told(matrix, len(matrix.stages) - 1)
    fused = len(matrix.stages) > 1
    steps = nest.rounds if nest.loops else nest.whole
    wanted = told.step_loads * told.steps * tiles
    counted = sum(n for name, n in steps.loads.items() if name.startswith("A"))
    # steps in a row load what they share once; lanes apart in a tile without a reduction may be loaded as whole vectors
    fewer = (code.drawn.shared and told.steps > 1) or (not told.unroll_steps and told.load_share_strided)
    problems = []
    if counted != wanted and not (fewer and counted < wanted):
        problems.append(f"{counted} loads, the features say {wanted}")
    operations = told.step_operations * told.steps * tiles
    if fused and not nest.loops:
        operations += last.step_operations * tiles
    once = code.repeats and steps.operations < operations
    if steps.operations != operations and not (told.across_lanes and not nest.loops) and not once:
        problems.append(f"{steps.operations} operations, the features say {operations}")
    if told.code_size != (told.step_operations + told.step_loads) * told.steps * tiles:
        problems.append(f"{counted + steps.operations} instructions, the features say {told.code_size}")
    if nest.loops:
        if nest.rounds.results % told.tile_vectors or nest.rounds.results > told.tile_vectors * told.steps:
            problems.append(f"{nest.rounds.results} results in registers, the features say {told.tile_vectors}")
        if nest.rounds.results != told.tile_vectors and (told.chains >= TARGET.chains or told.steps == 1):
            problems.append(f"{nest.rounds.results} results in registers, though {told.chains} chains are enough")
    stores = nest.whole.stores[matrix.stages[-1]]
    if stores != last.store_accesses * tiles:
        problems.append(f"{stores} stores, the features say {last.store_accesses * tiles}")
    if fused and (told.alloc_held == 1) != (nest.whole.loads["C"] + nest.whole.stores["C"] == 0):
        problems.append(f"{nest.whole.stores['C']} stores of C, and it is held: {told.alloc_held}")
    return problems


def test_steps_load_and_compute_what_the_features_say() -> None:
    seen: Counter[str] = Counter()

    @many(250, repeatable=True)
    @given(SOURCES["seeded"])
    def check(rng: Random) -> None:
        found = drawn_code(rng)
        if found is None:
            seen["refused"] += 1
            return
        nest, candidate = found.nest, found.drawn.candidate
        note(describe(candidate.sketch.workload, candidate))
        told = Told(found.matrix, 0)
        for what, is_so in {
            "loops": nest.loops,
            "written whole": not nest.loops and told.unroll_steps > 1,
            "several steps": nest.loops and told.unroll_steps > 1,
            "held": told.alloc_held,
            "packed": told.read1_packed,
            "strided": told.load_share_strided,
            "no reduction": not told.unroll_steps,
            "laid out around": found.tiles > 1,
        }.items():
            seen[what] += bool(is_so)
        assert not (problems := wrong_about_steps(found)), problems

    check()
    assert seen.pop("refused", 0) < 10
    assert min(seen.values()) > 5 and len(seen) == 8, seen  # what the test is worth


def test_registers_of_a_plain_step() -> None:
    """Of a multiply-add the estimate is exact nearly always: results and operands are what the text of a step holds at once."""
    exact: Counter[bool] = Counter()
    for seed in range(300):
        found = drawn_code(Random(seed))
        if found is None or not found.nest.loops:
            continue
        told = Told(found.matrix, 0)
        if told.unroll_steps == 1 and told.float_mad and told.step_operations == told.tile_vectors and not told.across_lanes:
            if told.tile_vectors * 8 == told.tile_values:  # all vectors are whole
                exact[told.registers_used == found.nest.rounds.live] += 1
    assert exact[True] > 3 * exact[False] and exact[True] >= 5, exact


@pytest.mark.parametrize(
    "feature", ["unroll_steps", "step_loads", "step_operations", "tile_vectors", "store_accesses", "alloc_held", "code_size"]
)
def test_a_falsified_feature_is_noticed(feature: str) -> None:
    unnoticed, tried = [], 0
    for seed in range(60):
        found = drawn_code(Random(seed))
        if found is None or (feature == "tile_vectors" and not found.nest.loops):
            continue
        matrix = found.matrix
        if feature in ("step_operations", "unroll_steps") and found.repeats:
            continue
        if float(matrix.raw(feature)[0, -1 if feature == "store_accesses" else 0]) == 0 or not Told(matrix, 0).step_loads:
            continue
        values = matrix.values.copy()
        column = matrix.schema.index[feature]
        values[..., column] = 0 if feature == "alloc_held" else values[..., column] + 1  # a scaled one is about doubled
        tried += 1
        if not wrong_about_steps(replace(found, matrix=replace(matrix, values=values))):
            unnoticed.append(seed)
    assert tried >= 8 and len(unnoticed) <= 0.1 * tried, (tried, unnoticed)


# -- memory ------------------------------------------------------------------------------------------------------------


def wrong_about_memory(program: Program, generated: Generated, matrix: FeatureMatrix) -> list[str]:
    """What features say of the memory of intermediate tensors and is not so."""
    told = {stage: Told(matrix, n) for n, stage in enumerate(matrix.stages)}
    stack: dict[str, int] = {}
    for nest in nests(program, generated.ir):
        stack |= nest.stack
    problems = []
    shared, local = [], 0
    for name, b in program.buffers.items():
        if b.kind not in ("scratch", "local") or told[name].alloc_held:
            continue
        size = round(told[name].alloc_bytes)
        room = -(-(size + ROOM.slack) // ROOM.alignment) * ROOM.alignment
        if b.kind == "scratch":
            shared.append(room)
        elif size > ROOM.stack:
            local += room
        elif stack.get(name) != (size + ROOM.slack) // dtype(b.dtype).bytes * dtype(b.dtype).bytes:
            problems.append(f"{name} has {stack.get(name)} bytes on the stack, the features say {size}")
    if not max(shared, default=0) <= generated.scratch_bytes <= sum(shared):
        problems.append(f"{generated.scratch_bytes} bytes for all threads, the features say {shared}")
    if generated.scratch_bytes_per_thread != local:
        problems.append(f"{generated.scratch_bytes_per_thread} bytes for each thread, the features say {local}")
    return problems


def drawn_memory(rng: Random) -> tuple[Program, Generated, FeatureMatrix] | None:
    workload = random_workload(rng)
    candidate = random_candidate(workload, rng)
    program = lower(candidate)
    try:
        return program, generate(program, TARGET), extract(program, TARGET)
    except Refusal:
        return None


def test_intermediate_tensors_take_the_memory_that_the_features_say() -> None:
    kinds: Counter[str] = Counter()

    @many(200, repeatable=True)
    @given(SOURCES["seeded"])
    def check(rng: Random) -> None:
        found = drawn_memory(rng)
        if found is None:
            return
        program, generated, _ = found
        note(str(program))
        kinds.update(b.kind for b in program.buffers.values())
        kinds["for each thread"] += bool(generated.scratch_bytes_per_thread)
        assert not (problems := wrong_about_memory(*found)), problems

    check()
    assert kinds["scratch"] > 20 and kinds["local"] > 20, kinds


@pytest.mark.parametrize("shape", [(3, 32, 32), (5, 1024), (64, 16, 64)])
def test_gaps_are_counted(shape: tuple[int, ...]) -> None:
    a = ts.placeholder(shape, name="A")
    b = ts.compute(shape, lambda *i: a[i] + 1.0, name="B")
    program = lower(plain_candidate(ts.workload([a, ts.compute(shape, lambda *i: b[i] * 2.0, name="C")])))
    matrix = extract(program, TARGET)
    assert Told(matrix, 0).alloc_bytes > 4 * math.prod(shape)
    assert not wrong_about_memory(program, generate(program, TARGET), matrix)


def test_a_falsified_size_is_noticed() -> None:
    noticed, tried = 0, 0
    for seed in range(60):
        found = drawn_memory(Random(seed))
        if found is None or not any(b.kind in ("scratch", "local") for b in found[0].buffers.values()):
            continue
        program, generated, matrix = found
        values = matrix.values.copy()
        values[..., matrix.schema.index["alloc_bytes"]] += 1
        tried += 1
        noticed += bool(wrong_about_memory(program, generated, replace(matrix, values=values)))
    assert tried >= 20 and noticed >= 0.6 * tried, (tried, noticed)  # a small one is the same, rounded up
