"""GPT-2 as one step with a cache: a small one generates, compiled, what `transformers`' own module does."""

from __future__ import annotations

import numpy as np
import pytest

import tensorsmith as ts

pytestmark = pytest.mark.peers


def test_a_small_one_generates_the_same_tokens() -> None:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    import gpt2

    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=211, n_positions=32, initializer_range=0.2)
    with torch.inference_mode():
        module = GPT2LMHeadModel(config).eval()
        prompt = [3, 141, 59]
        tokens, scores = gpt2.wanted(module, prompt, 10)
        model = ts.load(gpt2.step_model(module, 16).SerializeToString())
        for weights, share in ((None, 1e-4), ("bf16", 0.05), ("int8", 0.1)):
            executable = ts.compile(model, weights=weights)
            chosen, own = gpt2.generated(lambda i, e=executable: list(e.run(i).values()), gpt2.Cache(module, 16), prompt, 10)
            assert np.sqrt(np.mean((own[0] - scores[0]) ** 2)) < share * np.std(scores[0])
            assert weights is not None or chosen == tokens
    assert len(set(tokens)) > 1
