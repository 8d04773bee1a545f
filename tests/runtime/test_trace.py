"""Traces: every step once, every iteration of every region once, times that nest, and files that others read."""

from __future__ import annotations

import itertools
import json
import pickle

import numpy as np
import pytest
from tests.runtime.networks import compiled, perceptron, random

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import shared
from tensorsmith.runtime.running import _ENTRY, Prepared
from tensorsmith.runtime.trace import Notes, parallel_for


def squares(threads: int) -> Executable:
    A, B = (ts.placeholder((256, 256), name=name) for name in "AB")
    k = ts.reduce_axis(256, name="k")
    C = ts.compute((256, 256), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name="C")
    return ts.compile([A, B, C], threads=threads)


def test_every_iteration_of_every_region_is_there_once(tmp_path):
    for threads in (1, 2):
        trace = squares(threads).trace(tmp_path / "t.json")
        assert trace.threads == threads and len(trace.steps) == 1
        alone = squares(threads).trace(tmp_path / "t.json", threads=1)
        assert alone.threads == 1 and {s.thread for s in alone.spans} == {0}
        assert sum(s.items for s in trace.spans) == sum(s.items for s in alone.spans) > 0
        assert all(s.chunks >= 1 for s in trace.spans)


def test_spans_lie_in_their_steps_and_do_not_overlap_on_a_thread(tmp_path):
    trace = compiled(perceptron()).trace(tmp_path / "t.json")
    assert len(trace.steps) == len(trace.begins) > 3 and list(trace.begins) == sorted(trace.begins)
    assert trace.begins[0] == 0 and trace.begins[1:] == trace.ends[:-1]
    for span in trace.spans:
        assert trace.begins[span.step] <= span.begin <= span.end <= trace.ends[span.step]
    for thread in range(trace.threads):
        mine = [s for s in trace.spans if s.thread == thread]
        assert all(a.end <= b.begin for a, b in itertools.pairwise(mine))
        assert trace.busy(thread) <= trace.seconds


def test_the_file_is_chromes_format(tmp_path):
    file = tmp_path / "t.json"
    trace = squares(2).trace(file)
    found = json.loads(file.read_text())
    assert set(found) == {"traceEvents", "displayTimeUnit"}
    complete = [e for e in found["traceEvents"] if e["ph"] == "X"]
    assert len(complete) == len(trace.steps) + len(trace.spans)
    assert all({"name", "cat", "ts", "dur", "pid", "tid", "args"} <= set(e) and e["dur"] >= 0 for e in complete)
    names = {e["tid"]: e["args"]["name"] for e in found["traceEvents"] if e["name"] == "thread_name"}
    assert names == {0: "caller", 1: "worker 1"}
    (step,) = (e for e in complete if e["cat"] == "step")
    assert step["args"]["flops"] == 2 * 256**3 and step["dur"] == pytest.approx(trace.seconds * 1e6)


def test_more_regions_than_there_is_room_for():
    """A lane that is full counts on and is not written behind."""
    run = squares(1).prepare(*squares(1).random_inputs())
    _, full = run.traced()()
    assert full.counts()[0] == len(list(full.entries())) >= 1
    pool = shared(1)
    notes = Notes(pool.handle, pool.parallel_for_address, 1, 1, room=0)
    before = notes._memory.copy()
    table, scratch, _, _ = run.arguments
    _ENTRY(run._network.entry)(table, scratch, notes.address, parallel_for())
    assert notes.counts() == full.counts() and list(notes.entries()) == []
    assert (notes._memory[:24] == before[:24]).all()


def test_the_outputs_are_those_of_a_call():
    executable = compiled(perceptron())
    x = random(4, 24)
    run: Prepared = executable.prepare(x)
    run.poison()
    run.traced()()
    assert all(np.array_equal(a, b) for a, b in zip(run.outputs, executable(x)))


def test_names_of_strangers_are_data(tmp_path):
    b = Builder('net"}\x1b[2J')
    x = b.input("x", (4, 4), "f32")
    b.output("y", b.add("relu", [x]))
    file = tmp_path / "t.json"
    compiled(b.graph()).trace(file)
    text = file.read_text()
    assert json.loads(text)["traceEvents"][0]["args"]["name"].startswith('net"}') and "\\u001b" not in text


def test_a_loaded_executable_and_one_of_open_dimensions(tmp_path):
    again = pickle.loads(pickle.dumps(compiled(perceptron())))
    assert len(again.trace(tmp_path / "t.json").steps) == len(again.network.steps)


def test_wrong_paths_are_refused(tmp_path):
    executable = squares(1)
    with pytest.raises(UserError, match="give the file to write to"):
        executable.trace(3)
    with pytest.raises(UserError, match="cannot be written"):
        executable.trace(tmp_path / "nowhere" / "t.json")
    with pytest.raises(UserError, match="takes 2 inputs"):
        executable.trace(tmp_path / "t.json", np.zeros((256, 256), np.float32))
