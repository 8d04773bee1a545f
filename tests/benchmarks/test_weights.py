"""The contest of weights in fewer bits: its files say the same in 32 and in 4 bits."""

from __future__ import annotations

import numpy as np

import tensorsmith as ts
import weights


def test_the_files_mean_the_same_layers() -> None:
    layers = weights.layers(64, 3)
    x = np.random.default_rng(0).uniform(-1, 1, (1, 64)).astype(np.float32)
    exact = np.linalg.multi_dot([x, *layers])
    for file, share in ((weights.in_f32(layers), 1e-5), (weights.in_4_bits(layers), 0.3)):
        (got,) = ts.load(file.SerializeToString()).evaluate([x]).values()
        assert np.sqrt(np.mean((got - exact) ** 2) / np.mean(exact**2)) < share
