"""Text behind a prompt: the same whatever way it is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.language import files

import tensorsmith as ts
from tensorsmith.graph.model import Model
from tensorsmith.language.generator import Generator
from tensorsmith.language.model import LanguageModel
from tensorsmith.language.network import StepSize, mask_of, step_graph

PROMPT = [5, 17, 3, 88, 41]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    found = ts.load(files.folder(tmp_path_factory.mktemp("models") / "tiny"))
    assert isinstance(found, LanguageModel)
    return found


@pytest.fixture(scope="module")
def lm(model: LanguageModel) -> Generator:
    return ts.compile(model)


def close(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-4 * np.abs(b).max())


def test_a_step_is_what_its_definition_says(lm: Generator, model: LanguageModel) -> None:
    """The reference evaluator on the graph of a prompt, without any cache, against the programs."""
    size = StepSize(len(PROMPT), 1, 1)
    reference = Model.from_graph(step_graph(model.about, model.weights, size, None))
    places = np.arange(len(PROMPT))
    assert model.about.rotary is not None
    cos, sin = model.about.rotary.tables(places)
    empty = np.zeros((1, model.about.key_heads, model.about.head), np.float32)
    caches = {v.name: empty for v in reference.inputs if v.name.startswith(("key_", "value_"))}
    x = model.weights["token_embd.weight"].rows(np.array(PROMPT))
    given = {"x": x, "cos": cos, "sin": sin, "mask": mask_of(places, 0, 1, None)[None], "last": np.array([len(PROMPT) - 1])}
    close(lm.step(lm.sequence(), PROMPT), reference.evaluate({**given, **caches})["logits"][0])


def test_a_gguf_file_is_the_same_network(lm: Generator, tmp_path: Path) -> None:
    """That its rows of query and key are in another order is known."""
    (tmp_path / "tiny.gguf").write_bytes(files.llama_gguf())
    other = ts.compile(ts.load(tmp_path / "tiny.gguf"))
    close(other.step(other.sequence(), PROMPT), lm.step(lm.sequence(), PROMPT))
    assert other.generate(PROMPT, max_new_tokens=8) == lm.generate(PROMPT, max_new_tokens=8)


def test_pieces_tokens_and_batches_agree(lm: Generator) -> None:
    prompt = [int(t) for t in np.random.default_rng(1).integers(0, 95, 90)]  # two pieces, the second filled up
    whole = lm.step(lm.sequence(), prompt)
    state = lm.sequence()
    for token in prompt:
        last = lm.step(state, [token])
    close(last, whole)
    states = [lm.sequence() for _ in range(3)]
    for n, other in enumerate(states):
        lm.step(other, prompt[n:-1])
    close(lm.step(states, [[prompt[-1]]] * 3)[0], whole)


def test_sequences_are_taken_back_and_copied(lm: Generator) -> None:
    state = lm.sequence()
    lm.step(state, PROMPT)
    other = state.copy()
    first = lm.step(state, [7])
    lm.step(state, [8, 9])
    state.rewind(len(PROMPT))
    np.testing.assert_array_equal(lm.step(state, [7]), first)
    np.testing.assert_array_equal(lm.step(other, [7]), first)
    assert state.tokens == other.tokens == [*PROMPT, 7]


def test_greedy_text_is_the_most_likely_token_each_time(lm: Generator) -> None:
    state, tokens = lm.sequence(), []
    logits = lm.step(state, PROMPT)
    for _ in range(12):
        tokens.append(int(logits.argmax()))
        logits = lm.step(state, tokens[-1:])
    assert lm.generate(PROMPT, max_new_tokens=12, ignore_end=True) == tokens
    assert list(lm.stream(PROMPT, max_new_tokens=12, ignore_end=True)) == tokens
    stopped = lm.complete(PROMPT, max_new_tokens=12, ignore_end=True, stop=tokens[5])
    assert stopped.tokens == tokens[: tokens.index(tokens[5])]
    assert stopped.ended_by == "stop"


def test_the_same_seed_is_the_same_text(lm: Generator) -> None:
    def drawn(seed: int) -> list[int]:
        return lm.generate(PROMPT, max_new_tokens=16, temperature=1.5, seed=seed, ignore_end=True)

    assert drawn(1) == drawn(1)
    assert len({tuple(drawn(seed)) for seed in range(4)}) == 4


def test_several_prompts_give_what_each_gives(lm: Generator) -> None:
    prompts = [PROMPT, PROMPT[:2], [9] * 20]
    alone = [lm.generate(p, max_new_tokens=10, ignore_end=True) for p in prompts]
    assert lm.generate(prompts, max_new_tokens=10, ignore_end=True) == alone


def test_log_probabilities_are_those_of_the_logits(lm: Generator) -> None:
    found = lm.complete(PROMPT, max_new_tokens=1, ignore_end=True)
    logits = lm.step(lm.sequence(), PROMPT).astype(np.float64)
    wanted = logits[found.tokens[0]] - np.log(np.exp(logits).sum())
    assert found.log_probabilities == pytest.approx([wanted], abs=1e-5)


def test_prompts_that_begin_alike_share_what_was_computed(lm: Generator) -> None:
    prompt = [int(t) for t in np.random.default_rng(2).integers(0, 95, 40)]
    wanted = lm.generate([*prompt, 4], max_new_tokens=6)
    lm.generate([*prompt, 3], max_new_tokens=6, reuse=True)
    (writing,) = lm.writings([[*prompt, 4]], max_new_tokens=6, reuse=True)
    assert writing.state.tokens == prompt
    assert lm.generate([*prompt, 4], max_new_tokens=6, reuse=True) == wanted
    lm.forget()
    (writing,) = lm.writings([[*prompt, 4]], reuse=True)
    assert len(writing.state) == 0


def test_nothing_is_compiled_and_nothing_grows_once_the_sizes_are_known(model: LanguageModel) -> None:
    lm = ts.compile(model)
    lm.generate(PROMPT, max_new_tokens=200)  # to the end of the context
    lm.forget()
    known = lm.programs.compiled
    assert known == 3  # the prompt, and one token with caches of 64 and 128
    for n in range(5):
        tokens = lm.generate([n, *PROMPT], max_new_tokens=200, ignore_end=True)
        assert len(tokens) == model.context - len(PROMPT) - 1
    assert lm.programs.compiled == known
    assert len(lm._kept) <= 4


@pytest.mark.parametrize("weights", ["f32", "f16", "bf16", "int8", "q8_0", "q4_0"])
def test_weights_in_fewer_bits(model: LanguageModel, lm: Generator, weights: str) -> None:
    """They are off by what their bits cost, and not by more."""
    less = ts.compile(model, weights=weights)
    wanted, found = (one.step(one.sequence(), PROMPT) for one in (lm, less))
    share = np.sqrt(np.mean((found - wanted) ** 2)) / wanted.std()
    most = {"f32": 1e-6, "f16": 2e-3, "bf16": 2e-2, "int8": 5e-2, "q8_0": 5e-2, "q4_0": 0.6}[weights]
    least = {"f32": 0.0, "f16": 1e-5, "bf16": 1e-4, "int8": 1e-3, "q8_0": 1e-3, "q4_0": 1e-2}[weights]
    assert least <= share <= most


def test_the_model_of_a_step_has_the_tasks_of_the_programs(model: LanguageModel, lm: Generator) -> None:
    """So records of it are found when text is generated."""
    program = lm.programs.program(StepSize(1, 1, 64))
    step = ts.compile(model.step_model(places=64))
    assert [k.code.digest for k in step.network.kernels] == [k.code.digest for k in program.network.kernels]
    assert [s.kernel for s in step.network.steps] == [s.kernel for s in program.network.steps]
    with pytest.raises(ts.UserError, match="tokens is 0"):
        model.step_model(tokens=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda lm: lm.generate([]), "no token"),
        (lambda lm: lm.generate([1, 96]), "token 1 is 96; tokens are numbers from 0 to 95"),
        (lambda lm: lm.generate([1] * 128), "has 128 tokens; the model looks back on 128"),
        (lambda lm: lm.generate(3), "the prompt is 3"),
        (lambda lm: lm.generate([1], max_new_tokens=0), "max_new_tokens is 0"),
        (lambda lm: lm.generate([1], temperature=-1), "temperature is -1"),
        (lambda lm: lm.generate([1], top_k=0), "top_k is 0"),
        (lambda lm: lm.generate([1], top_p=2), "top_p is 2"),
        (lambda lm: lm.generate([1], seed=-1), "seed is -1"),
        (lambda lm: lm.generate([1], stop=[1.5]), "stop has 1.5"),
        (lambda lm: lm.generate("text"), "tokenizer"),
        (lambda lm: lm.stream([[1], [2]]), "one prompt"),
        (lambda lm: lm.step([lm.sequence()], [[1], [2]]), "1 sequences and 2 lists"),
        (lambda lm: lm.step(lm.sequence(), [1] * 129), "beyond the 128"),
        (lambda lm: lm.sequence().rewind(1), "cannot be taken back to 1"),
        (lambda lm: ts.compile(lm.model, target="cortex-a53"), "is compiled where it runs"),
        (lambda lm: ts.compile(lm.model, weights="q3"), "weights is 'q3'"),
        (lambda lm: ts.compile(lm.model, check_indices=True), "check_indices=True is not for language models"),
    ],
)
def test_what_is_wrong_is_said(lm: Generator, call: object, words: str) -> None:
    with pytest.raises(ts.UserError, match=words):
        call(lm)  # type: ignore[operator]
