"""Compiled models: parts in them run without being compiled again, and without the compiler; only where they are trusted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from tests.onnxruntime.networks import perceptron, random, session, with_a_gap

import tensorsmith.onnxruntime as provided
from tensorsmith.errors import UserError
from tensorsmith.onnxruntime import compiled, provider

Fail = ort.capi.onnxruntime_pybind11_state.Fail


def written(content: bytes, path: Path) -> ort.InferenceSession:
    """A session that writes its compiled model."""
    options = provided.session_options()
    options.log_severity_level = 4
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", str(path))
    return ort.InferenceSession(content, options)


@pytest.mark.parametrize("make, shape, ours", [(perceptron, (4, 24), 1), (with_a_gap, (4, 16), 2)])
def test_a_compiled_model_gives_the_same_bits(make, shape, ours, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    path, x = tmp_path / "compiled.onnx", random(*shape)
    (wanted,) = written(make(), path).run(None, {"x": x})
    nodes = [n for n in onnx.load(str(path)).graph.node if compiled.is_ours(n, provided.NAME)]
    assert len(nodes) == ours

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something is compiled")

    monkeypatch.setattr(provider, "compile", refuse)
    again = session(str(path), trust_compiled=True)
    assert len(provider.parts()) == ours
    assert np.array_equal(again.run(None, {"x": x})[0], wanted)


def test_it_needs_no_compiler(tmp_path: Path) -> None:
    path, x = tmp_path / "compiled.onnx", random(4, 24)
    (wanted,) = written(perceptron(), path).run(None, {"x": x})
    np.savez(tmp_path / "data.npz", x=x, wanted=wanted)
    script = f"""
import sys
sys.modules["llvmlite"] = None  # any import of it fails
import numpy as np, onnxruntime as ort
import tensorsmith.onnxruntime as t
data = np.load({str(tmp_path / "data.npz")!r})
session = ort.InferenceSession({str(path)!r}, t.session_options(trust_compiled=True))
for _ in range(3):
    assert np.array_equal(session.run(None, {{"x": data["x"]}})[0], data["wanted"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_it_has_to_be_trusted(tmp_path: Path) -> None:
    written(perceptron(), tmp_path / "compiled.onnx")
    with pytest.raises(Fail, match=r"machine code.*trust_compiled=True"):
        session(str(tmp_path / "compiled.onnx"))


def test_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "compiled.onnx"
    written(perceptron(), path)
    model = onnx.load(str(path))
    (attribute,) = [a for a in model.graph.node[0].attribute if a.name == "ep_cache_context"]
    whole = attribute.s
    for part in (b"", b"nonsense", whole[:20], whole[:-9], whole[:-9] + b"123456789"):
        attribute.s = part
        with pytest.raises(Fail, match=r"damaged|not a|checksum|file"):
            session(model.SerializeToString(), trust_compiled=True)


def test_open_dimensions_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(Fail, match=r"open dimensions \(batch\).*add_free_dimension_override_by_name"):
        written(perceptron("batch"), tmp_path / "compiled.onnx")


def test_nodes_of_others_are_not_ours() -> None:
    node = onnx.helper.make_node(compiled.OPERATOR, ["x"], ["y"], domain=compiled.DOMAIN, source="OtherExecutionProvider")
    assert not compiled.is_ours(node, provided.NAME)
    with pytest.raises(UserError, match="damaged"):
        compiled.executable_of(compiled.content(node))
