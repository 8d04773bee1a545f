"""What every backend promises, as a check that its author runs:

    register_backend(BACKEND)
    check_backend(BACKEND)

It raises an `AssertionError` that says which promise is broken, and how. Programs are run where the backend's device says that they
can; for targets that are elsewhere, only what is built is checked.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.backends import Backend, backend_of
from tensorsmith.build import build_kernel, kernel_alone
from tensorsmith.errors import UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.runtime.built import Kernel
from tensorsmith.runtime.device import device_of
from tensorsmith.runtime.executable import Executable, executable
from tensorsmith.runtime.load import load
from tensorsmith.runtime.pool import with_threads
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import Target, kind_of


def check_backend(backend: Backend[Any], targets: Sequence[Target] | None = None) -> None:
    """Raises `AssertionError` if a backend breaks a promise. `targets`: those to build for, by default this machine's and one that
    is known by name.

        check_backend(MY_BACKEND)
    """
    named = list(backend.target.catalogue().values())
    given = list(targets) if targets is not None else [backend.target.detect(), *named[:1]]
    _check_record(backend, given)
    for target in [*given, *named]:
        _check_target(target)
    for target in given:
        for workload in workloads():
            _check_programs(backend, target, workload)


def workloads() -> Iterator[Workload]:
    """Small computations that touch what is easy to get wrong: sizes that divide nothing, constants, padding, integers, several
    stages, several outputs."""
    a, w = ts.placeholder((7, 19), name="A"), ts.placeholder((19, 13), name="W", constant=True)
    k = ts.reduce_axis(19, name="k")
    c = ts.compute((7, 13), lambda i, j: ts.sum(a[i, k] * w[k, j], axis=k), name="C")
    yield ts.workload([a, w, ts.compute((7, 13), lambda i, j: ts.maximum(c[i, j], 0.0), name="D")])
    x = ts.placeholder((5, 9), name="X")
    padded = ts.compute(
        (5, 11), lambda i, j: ts.select((j >= 1) & (j < 10), x[i, ts.maximum(ts.minimum(j - 1, 8), 0)], 0.0), name="P"
    )
    d = ts.reduce_axis(3, name="d")
    yield ts.workload([x, ts.compute((5, 9), lambda i, j: ts.sum(padded[i, j + d], axis=d), name="S")])
    n = ts.placeholder((33,), "i32", name="N")
    yield ts.workload([n, ts.compute((33,), lambda i: n[i] * 3 + 1, name="M")])
    e = ts.placeholder((4, 17), name="E")
    r = ts.reduce_axis(17, name="r")
    most = ts.compute((4,), lambda i: ts.max(e[i, r], axis=r), name="most")
    yield ts.workload([e, most, ts.compute((4, 17), lambda i, j: ts.exp(e[i, j] - most[i]), name="F")])


def _check_record(backend: Backend[Any], targets: Sequence[Target]) -> None:
    assert backend.kind and backend.target.kind == backend.device.kind == backend.kind, "record, targets and device differ in kind"
    assert kind_of(backend.kind) is backend.target, f"targets of kind {backend.kind!r} are not this backend's: register it first"
    assert device_of(backend.kind) is backend.device, f"what runs {backend.kind!r} is not this backend's: register it first"
    assert "default" in backend.rule_sets, 'there are no rules "default"'
    assert targets, "there is no target to build for"
    for target in targets:
        assert isinstance(target, backend.target), f"{target.name} is no {backend.target.__name__}"
        assert backend_of(target) is backend, f"{target.name} belongs to another backend"


def _check_target(target: Target) -> None:
    what = f"target {target.name}"
    assert target.name and target.key, f"{what} has no name or no key"
    assert target.cores >= 1 and target.lanes(4) >= 1 and target.lanes(1) >= target.lanes(8), f"{what} has no cores or no lanes"
    assert target.shared_cache_bytes >= 0 and target.core_cache_bytes >= 0, f"{what} has caches of a negative size"
    assert hash(target) == hash(Target.from_json(target.to_json())), f"{what} cannot be told by its facts"
    form = json.loads(json.dumps(target.to_json()))
    assert Target.from_json(form) == target, f"{what} comes back from JSON as another"
    more = {**form, "a fact of tomorrow": 1}
    assert Target.from_json(more) == target, f"{what} cannot be read by an older version: a fact it does not know is in the way"
    for f in fields(target):
        if f.default is not MISSING:
            less = {name: value for name, value in form.items() if name != f.name}
            assert Target.from_json(less) is not None, f"{what} of an older version, without {f.name}, cannot be read"
    text = target.describe()
    assert text and all(isinstance(line, str) and line for line in text.values()), f"{what} has nothing to say of itself"


def _check_programs(backend: Backend[Any], target: Target, workload: Workload) -> None:
    what = f"{', '.join(workload.outputs)} for {target.name}"
    for schedule, candidate in (
        ("default schedule", backend.default_candidate(workload, target)),
        ("plain schedule", plain_candidate(workload)),
    ):
        kernel = build_kernel(candidate, target)
        _check_code(kernel, target, f"the {schedule} of {what}")
        why_not = backend.device.why_not(target)
        made = executable(kernel_alone(workload, kernel))
        if why_not is None:
            _check_answers(made, workload, f"the {schedule} of {what}")
        else:
            _check_elsewhere(made, workload, target, what)


def _check_code(kernel: Kernel, target: Target, what: str) -> None:
    code = kernel.code
    assert code.target == target, f"{what} has code for {code.target.name}"
    assert isinstance(code.data, bytes) and code.data, f"{what} has no code that could be saved"
    assert len(code.symbols) == 1, f"{what} has {len(code.symbols)} functions to call, not one"
    for kind in code.texts:
        assert code.source(kind).strip(), f"{what} has an empty text {kind!r}"
    assert kernel.scratch_bytes >= 0 and kernel.scratch_bytes_per_thread >= 0, f"{what} needs less than no memory"


def _check_answers(made: Executable, workload: Workload, what: str) -> None:
    inputs = random_inputs(workload, 0)
    want = evaluate(workload, inputs, precise=True)
    constants = {b.name: inputs[b.name] for b in workload.inputs if b.constant}
    others = {name: array for name, array in inputs.items() if name not in constants}
    bound = made.bind(**constants) if constants else made
    for threads in (1, 2):
        with with_threads(threads):
            _compare(made(**inputs), workload, want, f"{what} on {threads} threads")
            _compare(bound(**others), workload, want, f"{what} with bound constants on {threads} threads")
    prepared = bound.prepare(threads=1, **others)
    for round_ in ("first", "second"):
        prepared.poison()  # what was there before is no answer
        prepared.repeat(1)
        _compare(prepared.outputs, workload, want, f"{what} in memory full of NaN, for the {round_} time")
    assert prepared.seconds(1) > 0, f"{what} takes no time"
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first.tsm", Path(folder) / "second.tsm"
        bound.save(first)
        loaded = load(first)
        _compare(loaded(**others), workload, want, f"{what}, saved and loaded")
        loaded.save(second)
        assert first.read_bytes() == second.read_bytes(), f"{what} is another file when it is loaded and saved again"


def _check_elsewhere(made: Executable, workload: Workload, target: Target, what: str) -> None:
    inputs = random_inputs(workload, 0)
    try:
        made(**inputs)
    except UserError as problem:
        assert target.name in str(problem), f"{what} cannot run here, and the error does not name {target.name}: {problem}"
    else:
        raise AssertionError(f"{what} is said not to run here, and does")
    constants = {b.name: inputs[b.name] for b in workload.inputs if b.constant}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "elsewhere.tsm"
        (made.bind(**constants) if constants else made).save(path)
        try:
            load(path)
        except UserError as problem:
            assert target.name in str(problem), f"the file of {what} does not say which machine it wants: {problem}"
        else:
            raise AssertionError(f"the file of {what} is loaded here, where it cannot run")


def _compare(got: Any, workload: Workload, want: dict[str, np.ndarray], what: str) -> None:
    answers = list(got) if isinstance(got, (tuple, list)) else [got]
    assert len(answers) == len(workload.outputs), f"{what} gives {len(answers)} outputs, not {len(workload.outputs)}"
    for name, answer in zip(workload.outputs, answers):
        problem = difference(workload, name, np.asarray(answer), want[name])
        assert problem is None, f"{what} is wrong: {problem}"
