"""GGUF files: what is right is read, and nothing that a file says is believed."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.language import files

import tensorsmith as ts
from tensorsmith.language.gguf import read_gguf

ONE = np.arange(8, dtype=np.float32).reshape(2, 4)
TENSORS: dict[str, tuple[tuple[int, ...], str, bytes]] = {"one": ((2, 4), "f32", ONE.tobytes()), "two": ((4,), "f32", bytes(16))}


def written(path: Path, data: bytes) -> Path:
    (path / "model.gguf").write_bytes(data)
    return path / "model.gguf"


def test_values_and_tensors_are_read(tmp_path: Path) -> None:
    values = {"text": "löwe", "number": -3, "real": 0.5, "flag": True, "some": [1, 2], "words": ["a", "b"]}
    found = read_gguf(written(tmp_path, files.gguf(values, TENSORS)))
    assert found.metadata == values
    assert {name: w.shape for name, w in found.tensors.items()} == {"one": (2, 4), "two": (4,)}
    np.testing.assert_array_equal(found.tensors["one"].array(), ONE)
    np.testing.assert_array_equal(found.tensors["one"].rows(np.array([1])), ONE[1:])


def test_every_shorter_file_is_refused(tmp_path: Path) -> None:
    """Wherever it is cut: in a key, a value, a description or the data, but for filling at the end."""
    whole = files.gguf({"key": "value", "list": [1, 2, 3]}, TENSORS)
    for length in range(len(whole) - 16):
        with pytest.raises(ts.UserError):
            read_gguf(written(tmp_path, whole[:length]))
    read_gguf(written(tmp_path, whole))


def test_random_bytes_are_refused_or_harmless(tmp_path: Path) -> None:
    """A byte anywhere in front of the data may be anything: the answer is a file or a `UserError`, at once and in little memory."""
    whole = files.gguf({"key": "value", "list": [1, 2, 3], "names": ["a", "b"]}, TENSORS)
    random, refused = np.random.default_rng(0), 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(int(random.integers(1, 4))):
            data[int(random.integers(0, len(whole) - 48))] = int(random.choice([0, 1, 127, 128, 255, random.integers(256)]))
        try:
            for weight in read_gguf(written(tmp_path, bytes(data))).tensors.values():
                weight.array()
        except ts.UserError:
            refused += 1
    assert 100 < refused < 400


def header(tensors: int, pairs: int, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + rest


def description(rank: int = 1, extents: tuple[int, ...] = (4,), kind: int = 0, offset: int = 0, name: str = "x") -> bytes:
    return files.text(name) + struct.pack(f"<I{len(extents)}QIQ", rank, *extents, kind, offset) + bytes(64)


DEEP = struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 10


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GGML" + bytes(40), "does not begin"),
        (header(0, 0, bytes(8), version=1), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0) + bytes(8), "big-endian"),
        (header(1 << 60, 0, bytes(64)), "truncated"),
        (header(0, 1 << 62, bytes(64)), "truncated"),
        (header(0, 1, struct.pack("<Q", 1 << 63) + bytes(64)), "a key needs 9223372036854775808 bytes"),
        (header(0, 1, files.text("k") + struct.pack("<IIQ", 9, 4, 1 << 60) + bytes(64)), "elements of 'k'"),
        (header(0, 1, files.text("k") + struct.pack("<IIQ", 9, 8, 1 << 60) + bytes(64)), "elements of 'k'"),
        (header(0, 1, files.text("k") + struct.pack("<I", 13) + bytes(64)), "type 13"),
        (header(0, 1, files.text("k") + DEEP + bytes(64)), "levels deep"),
        (header(0, 2, files.text("k") + files.value(1) + files.text("k") + files.value(1) + bytes(64)), "twice"),
        (header(0, 1, files.text("general.alignment") + files.value(3) + bytes(64)), "power of two"),
        (header(1, 0, description(rank=5, extents=(1,) * 5)), "5 dimensions"),
        (header(1, 0, description(rank=0, extents=())), "0 dimensions"),
        (header(1, 0, description(kind=10)), "Q2_K"),
        (header(1, 0, description(kind=99)), "number 99"),
        (header(1, 0, description(kind=8, extents=(33,))), "whole blocks of 32"),
        (header(1, 0, description(extents=(0,))), "rows of F32"),
        (header(1, 0, description(offset=7)), "no multiple of 32"),
        (header(1, 0, description(offset=1 << 40)), "Is it truncated"),
        (header(1, 0, description(extents=(1 << 62,))), "Is it truncated"),
        (header(1, 0, description(rank=4, extents=(1 << 63,) * 4)), "Is it truncated"),
        (header(1, 0, description(name="n" * 65)), "64 is the most"),
        (header(2, 0, description()[:-64] + description()), "two tensors"),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(ts.UserError, match=words):
        read_gguf(written(tmp_path, data))


def changed(name: str, value: Any) -> bytes:
    """A whole network of which one value is another; without it, where that is None."""
    values = {k: v for k, v in {**files.llama_metadata(), name: value}.items() if v is not None}
    return files.llama_gguf(metadata=values)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("general.architecture", "bert", "known are llama"),
        ("general.architecture", None, "known are llama"),
        ("llama.block_count", None, "lacks llama.block_count"),
        ("llama.block_count", 3, "lacks blk.2."),
        ("llama.block_count", 1, "has blk.1."),
        ("llama.block_count", -1, "block_count is -1"),
        ("llama.embedding_length", 64, "token_embd.weight is"),
        ("llama.attention.head_count", 3, "do not share"),
        ("llama.attention.head_count", "many", "one number is expected"),
        ("llama.rope.scaling.type", "other", "rope_type is 'other'"),
        ("split.count", 3, "one of 3 parts"),
    ],
)
def test_networks_that_do_not_fit_together_are_refused(tmp_path: Path, name: str, value: Any, words: str) -> None:
    with pytest.raises(ts.UserError, match=words):
        ts.load(written(tmp_path, changed(name, value)))


JUNK: list[Any] = [True, -1, 0, 1, 3, (1 << 31) - 1, float("inf"), float("nan"), -0.5, "", "text", [1, 2], ["a"]]


def test_values_of_junk_are_refused_or_read(tmp_path: Path) -> None:
    """Whatever stands for whatever: a network, or a `UserError`."""
    names = [*files.llama_metadata(), "llama.rope.dimension_count", "llama.rope.freq_base", "llama.attention.key_length"]
    names += ["llama.attention.sliding_window", "llama.attention.scale", "llama.rope.scaling.type", "tokenizer.ggml.tokens"]
    refused = 0
    for name in names:
        for value in JUNK:
            try:
                ts.load(written(tmp_path, changed(name, value)))
            except ts.UserError:
                refused += 1
    assert refused > len(names) * 4
