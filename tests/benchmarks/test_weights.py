"""The contest of weights in fewer bits: its files say the same in 32 and in 4 bits."""

from __future__ import annotations

import numpy as np

import tensorsmith as ts
import weights


def test_the_files_mean_the_same_matrix() -> None:
    (matrix,) = weights.matrices(64, 1)
    x = np.random.default_rng(0).uniform(-1, 1, (1, 64)).astype(np.float32)
    for file, share in ((weights.in_f32(matrix), 1e-5), (weights.in_4_bits(matrix), 0.2)):
        got = ts.load(file.SerializeToString()).evaluate([x])["y"]
        assert np.sqrt(np.mean((got - x @ matrix) ** 2) / np.mean((x @ matrix) ** 2)) < share


def test_a_small_contest_has_everyone() -> None:
    """Each answer is checked on the way."""
    found = weights.gather(256, 2, 1)
    assert [name.split()[1] for name in found if name.startswith("tensorsmith")] == list(weights.KINDS)
    assert found["tensorsmith bf16"].error < found["tensorsmith int8"].error * 2 < found["tensorsmith int4"].error
    assert 256 * 256 < found["tensorsmith int8"].bytes < 1.2 * 256 * 256
    for contestant in found.values():
        contestant.run()
