"""Formats of GGUF files, bit by bit: blocks made by hand."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tensorsmith.language.blocks import FORMATS, expanded, quantised


def block(format: str, *parts: bytes) -> np.ndarray:
    data = b"".join(parts)
    assert len(data) == FORMATS[format].bytes
    return expanded(np.frombuffer(data, np.uint8)[None], format)[0]


def half(number: float) -> bytes:
    return struct.pack("<e", number)


def nibbles(*at: tuple[int, int], size: int = 16, start: int = 0) -> bytes:
    """Bytes of which those at some places have a value."""
    found = bytearray([start] * size)
    for place, given in at:
        found[place] = given
    return bytes(found)


def spikes(weights: int, base: float, *at: tuple[int, float]) -> np.ndarray:
    found = np.full(weights, base, np.float32)
    for place, given in at:
        found[place] = given
    return found


def test_q8_0() -> None:
    found = block("q8_0", half(0.5), struct.pack("32b", *range(-16, 16)))
    np.testing.assert_array_equal(found, np.arange(-16, 16) / 2)


def test_q4_0() -> None:
    """Byte 3 has weight 3 in its low half, weight 19 in its high half."""
    found = block("q4_0", half(2), nibbles((3, 0xF1), start=0x88))
    np.testing.assert_array_equal(found, spikes(32, 0, (3, -14), (19, 14)))


def test_q4_1() -> None:
    found = block("q4_1", half(2), half(-3), nibbles((3, 0xF1)))
    np.testing.assert_array_equal(found, spikes(32, -3, (3, -1), (19, 27)))


def test_q5_0() -> None:
    bits = (1 << 3 | 1 << 20).to_bytes(4, "little")
    found = block("q5_0", half(1), bits, nibbles((3, 0x21)))
    np.testing.assert_array_equal(found, spikes(32, -16, (3, 1), (19, -14), (20, 0)))


def test_q5_1() -> None:
    bits = (1 << 3 | 1 << 20).to_bytes(4, "little")
    found = block("q5_1", half(1), half(4), bits, nibbles((3, 0x21)))
    np.testing.assert_array_equal(found, spikes(32, 4, (3, 21), (19, 6), (20, 20)))


#: scales 1 to 7 and 56 of the parts and minima 0, but 33 of part 5, each of six bits
SCALES = bytes([1, 2, 3, 4 | 3 << 6, 0, 0x80, 0, 0, 5, 6 | 1 << 4, 7, 8])


def test_q4_k() -> None:
    """Group 2 is bytes 64 to 95: part 4 in the low halves, part 5 in the high halves."""
    found = block("q4_k", half(1), half(0.5), SCALES, nibbles((64 + 7, 0x93), (96 + 1, 0x20), size=128))
    wanted = np.zeros((8, 32), np.float32)
    wanted[5] = -33 / 2
    wanted[7, 1] = 2 * 56
    wanted[4, 7], wanted[5, 7] = 3 * 5, 9 * 6 - 33 / 2
    np.testing.assert_array_equal(found, wanted.reshape(-1))


def test_q5_k() -> None:
    found = block("q5_k", half(1), half(0), SCALES, nibbles((7, 1 << 4), size=32), nibbles((64 + 7, 0x93), size=128))
    np.testing.assert_array_equal(found, spikes(256, 0, (4 * 32 + 7, (3 + 16) * 5), (5 * 32 + 7, 9 * 6)))


def test_q6_k() -> None:
    """Weight 128 + 32 * 3 + 5 is the high half of byte 64 + 32 + 5, its upper bits the last two of byte 32 + 5; its part is 14."""
    scales = struct.pack("16b", *range(-8, 8))
    found = block("q6_k", nibbles((101, 0x70), size=128), nibbles((37, 0b10 << 6), size=64), scales, half(0.25))
    wanted = np.repeat(np.arange(-8, 8), 16) * 0.25 * -32
    wanted[128 + 96 + 5] = 6 * 0.25 * (7 + 32 - 32)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("format", "steps"), [("q8_0", 127), ("q4_0", 8)])
def test_quantising_is_off_by_half_a_step_at_most(format: str, steps: int) -> None:
    """Of the largest weight's share, and what f16 does to the scale; the positive end of q4_0 is one step short."""
    weights = np.random.default_rng(0).standard_normal((5, 96)).astype(np.float32)
    weights[0, :32] = 0
    found = expanded(quantised(weights, format), format)
    largest = np.abs(weights.reshape(5, 3, 32)).max(axis=-1).repeat(32, axis=1)
    short = 1.0 if format == "q4_0" else 0.5
    assert (np.abs(found - weights) <= largest / steps * short + largest * 2e-3).all()
    assert (found[0, :32] == 0).all()


@pytest.mark.parametrize("format", ["f32", "f16", "bf16"])
def test_plain_formats_keep_what_they_can_hold(format: str) -> None:
    weights = np.array([[1, -0.5, 3, 1024]], np.float32)
    np.testing.assert_array_equal(expanded(quantised(weights, format), format), weights)


@pytest.mark.peers
@pytest.mark.parametrize("format", [f for f in FORMATS if f.startswith("q")])
def test_random_blocks_are_what_the_package_gguf_says(format: str) -> None:
    from gguf import GGMLQuantizationType, quants

    kind = getattr(GGMLQuantizationType, format.upper())
    random, facts = np.random.default_rng(0), FORMATS[format]
    rows = random.integers(0, 256, (40, 3, facts.bytes)).astype(np.uint8)
    scales = {"q6_k": [208]}.get(format, [0, 2] if format in ("q4_1", "q5_1", "q4_k", "q5_k") else [0])
    for at in scales:
        rows[..., at : at + 2] = random.standard_normal((40, 3, 1)).astype(np.float16).view(np.uint8)
    rows = rows.reshape(40, -1)
    wanted = quants.dequantize(rows, kind)
    np.testing.assert_allclose(expanded(rows, format), wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
    if format in ("q8_0", "q4_0"):
        weights = random.standard_normal((40, 96)).astype(np.float32)
        np.testing.assert_array_equal(quantised(weights, format), quants.quantize(weights, kind))
