"""safetensors files and folders: what is right is read, and nothing that a file says is believed."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.language import files

import tensorsmith as ts
from tensorsmith.language.safetensors import INDEX, read_folder, read_safetensors


def file(path: Path, header: Any, body: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def about(dtype: str = "F32", shape: Any = (2, 2), offsets: Any = (0, 16)) -> dict[str, Any]:
    return {"x": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(("name", "dtype"), [("F32", np.float32), ("F16", np.float16), ("BF16", ml_dtypes.bfloat16)])
def test_arrays_are_read(tmp_path: Path, name: str, dtype: Any) -> None:
    array = np.array([[1, -2], [0.5, 4]]).astype(dtype)
    found = read_safetensors(file(tmp_path / "a.safetensors", about(name, (2, 2), (0, array.nbytes)), array.tobytes()))
    np.testing.assert_array_equal(found["x"].array(), array.astype(np.float32))


def test_files_in_parts_are_read_by_their_index(tmp_path: Path) -> None:
    arrays = files.llama_weights()
    names = sorted(arrays)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for part, own in parts.items():
        (tmp_path / part).write_bytes(files.safetensors({n: arrays[n] for n in own}))
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {n: part for part, own in parts.items() for n in own}}))
    found = read_folder(tmp_path)
    assert sorted(found) == names
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {**dict.fromkeys(names, "a.safetensors"), "lost": "b.safetensors"}}))
    with pytest.raises(ts.UserError, match="names 'lost', which is in no file"):
        read_folder(tmp_path)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"x": "../elsewhere.safetensors"}}))
    with pytest.raises(ts.UserError, match="not one of its folder"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"{", "no JSON"),
        (b"[" * 5000, "no JSON"),
        (b"[]", "no JSON object"),
        ({"x": 3}, "expected dtype"),
        (about(shape=(2, -2)), "expected dtype"),
        (about(shape="22"), "expected dtype"),
        (about(offsets=(0,)), "expected dtype"),
        (about(offsets=(0, 8)), "16 bytes"),
        (about(offsets=(16, 0)), "16 bytes"),
        (about(offsets=(8, 24)), "Is it truncated"),
        (about(shape=(1 << 62, 4)), "Is it truncated"),
    ],
)
def test_hostile_headers_are_refused(tmp_path: Path, header: Any, words: str) -> None:
    with pytest.raises(ts.UserError, match=words):
        read_safetensors(file(tmp_path / "a.safetensors", header, bytes(16)))


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    whole = files.safetensors({"x": np.ones((2, 2), np.float32)})
    for length in range(len(whole)):
        (tmp_path / "a.safetensors").write_bytes(whole[:length])
        with pytest.raises(ts.UserError):
            read_safetensors(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "bert"}, "model_type is 'bert'; known are llama"),
        ({"model_type": None}, "model_type is None"),
        ({"hidden_size": "wide"}, "hidden_size is 'wide'"),
        ({"hidden_size": -1}, "hidden_size is -1"),
        ({"hidden_act": "swoosh"}, "the activation is 'swoosh'"),
        ({"num_key_value_heads": 3}, "do not share"),
        ({"num_hidden_layers": 3}, "lacks blk.2."),
        ({"num_hidden_layers": 1}, "blk.1."),
        ({"intermediate_size": 65}, r"is \[64, 32\]; by the sizes it gives it is \[65, 32\]"),
        ({"rope_scaling": {"rope_type": "other"}}, "rope_type is 'other'"),
        ({"rope_scaling": {"rope_type": "linear"}}, "needs 'factor'"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"sliding_window": 4, "layer_types": ["other"]}, "layer_types has to be"),
    ],
)
def test_configurations_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    folder = files.folder(tmp_path / "model", weights=files.llama_weights())
    (folder / "config.json").write_text(json.dumps({**files.CONFIG, **change}))
    with pytest.raises(ts.UserError, match=words):
        ts.load(folder)


def test_folders_of_other_things_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ts.UserError, match=r"without config\.json"):
        ts.load(tmp_path)
    with pytest.raises(ts.UserError, match="there is no"):
        ts.load(tmp_path / "missing.gguf")
    (tmp_path / "config.json").write_text(json.dumps(files.CONFIG))
    with pytest.raises(ts.UserError, match=r"has no \*.safetensors file"):
        ts.load(tmp_path)
    with pytest.raises(ts.UserError, match="are for ONNX files"):
        ts.load(tmp_path, shapes={"x": 1})


JUNK: list[Any] = [None, True, -1, 0, 1, 3, 1 << 40, 1e400, -0.5, "", "text", [], [1], {}, {"a": 1}]


def test_configurations_of_junk_are_refused_or_read(tmp_path: Path) -> None:
    """Whatever stands for whatever: a network, or a `UserError`."""
    names = [
        *files.CONFIG,
        "head_dim",
        "rope_theta",
        "rope_scaling",
        "rope_parameters",
        "hidden_act",
        "sliding_window",
        "layer_types",
    ]
    names += ["partial_rotary_factor", "use_sliding_window", "max_window_layers", "original_max_position_embeddings"]
    folder, refused = files.folder(tmp_path / "model"), 0
    for name in names:
        for value in JUNK:
            (folder / "config.json").write_text(json.dumps({**files.CONFIG, name: value}))
            try:
                ts.load(folder)
            except ts.UserError:
                refused += 1
    assert refused > len(names) * 4


def test_rotaries_of_junk_are_refused_or_read(tmp_path: Path) -> None:
    folder, refused = files.folder(tmp_path / "model"), 0
    for kind in ("linear", "llama3", "yarn", "longrope"):
        good = {"rope_type": kind, "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "beta_fast": 32, "beta_slow": 1}
        good |= {"original_max_position_embeddings": 64, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "rope_theta": 1e4}
        for name in good:
            for value in JUNK:
                (folder / "config.json").write_text(json.dumps({**files.CONFIG, "rope_scaling": {**good, name: value}}))
                try:
                    ts.load(folder)
                except ts.UserError:
                    refused += 1
    assert refused > 100
