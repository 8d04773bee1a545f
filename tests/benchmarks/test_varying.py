"""The benchmark of sizes that vary, on a tiny network: everything it serves is right; nothing is measured."""

import numpy as np

import tensorsmith as ts
import varying


def test_every_size_is_served_and_right():
    source = varying.residual_network(width=4, blocks=1, image=8)
    model = ts.load(source, shapes={"batch": [2, 6]})
    _, right = varying.reference(model, source)
    waiting = varying.serve(ts.compile(model, ranges=False), model, [3, 2], right)
    behind_executable = ts.compile(model, background=True, ranges=False)
    behind = varying.serve(behind_executable, model, [3, 2], right)
    behind_executable.wait()
    assert [c.served for c in waiting] == ["its own, compiled now", "its own, known"]
    assert [c.served for c in behind] == ["size 6, filled up", "its own, known"]
    assert max(c.difference for c in (*waiting, *behind)) < 1e-5
    assert len(varying.table("title", waiting, behind).rows) == 2


def test_a_wrong_answer_is_seen():
    source = varying.residual_network(width=4, blocks=1, image=8)
    model = ts.load(source, shapes={"batch": [2]})
    (call,) = varying.serve(ts.compile(model), model, [2], lambda arrays: [np.ones((2, 10), np.float32)])
    assert call.difference > 0.1
