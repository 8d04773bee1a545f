"""Text: tokenizers in files, what is certain of a text while it is written, stops, chats. By the package `tokenizers`."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.language import files
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.language.generator import Generator
from tensorsmith.serve.server import Server

pytestmark = pytest.mark.peers

CORPUS = [
    "Once upon a time there was a kernel. It's 1234 loops long, naïve; says «löwe» 日本語 🙂\n\n  and then?",
    "a b  c\td\r\n",
] * 3
END = "<|end|>"
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
CONFIG = {**files.CONFIG, "vocab_size": 400, "eos_token_id": 0}


def byte_pairs() -> Tokenizer:
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    found.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, special_tokens=[END], initial_alphabet=alphabet))
    return found


def values_of(tokenizer: Tokenizer, **more: Any) -> dict[str, Any]:
    """What a GGUF file says of a tokenizer of byte pairs."""
    own = json.loads(tokenizer.to_str())["model"]
    names = sorted(own["vocab"], key=own["vocab"].get)
    names += [f"<unused {n}>" for n in range(CONFIG["vocab_size"] - len(names))]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": names,
        "tokenizer.ggml.token_type": [3 if n == END else 1 for n in names],
        "tokenizer.ggml.merges": [" ".join(m) if isinstance(m, list) else m for m in own["merges"]],
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.chat_template": TEMPLATE,
        **more,
    }


def model(path: Path, **more: Any) -> Path:
    data = files.llama_gguf(CONFIG, metadata={**files.llama_metadata(CONFIG), **values_of(byte_pairs(), **more)})
    path.write_bytes(data)
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="module")
def lm(file: Path) -> Generator:
    return ts.compile(ts.load(file))


def test_byte_pairs_of_a_gguf_file_are_those_they_were_made_of(lm: Generator) -> None:
    wanted = byte_pairs()
    for text in [*CORPUS, f"a{END}b", "", "\x00", "ab" * 40]:
        assert lm.tokenizer.encode(text) == wanted.encode(text).ids
        assert lm.tokenizer.decode(lm.tokenizer.encode(text)) == wanted.decode(wanted.encode(text).ids)
    assert lm.tokenizer.encode(f"a{END}").count(0) == 1


def test_the_first_token_is_added_where_the_file_says_so(tmp_path: Path) -> None:
    found = ts.compile(ts.load(model(tmp_path / "m.gguf", **{"tokenizer.ggml.add_bos_token": True}))).tokenizer
    assert found.encode("a")[0] == 0
    assert found.encode("a", special=False)[0] != 0
    assert found.encode(END + "a").count(0) == 1


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("qwen2", "It's 1234", ["It", "'s", "Ġ", "1", "2", "3", "4"]),
        ("llama-bpe", "It's 1234", ["It", "'s", "Ġ", "123", "4"]),
        ("smollm", "It's 1234", ["It", "'s", "Ġ", "1", "2", "3", "4"]),
        ("gpt-2", "It's 1234", ["It", "'s", "Ġ1234"]),
    ],
)
def test_texts_are_cut_as_the_name_says(tmp_path: Path, name: str, text: str, words: list[str]) -> None:
    found = ts.compile(ts.load(model(tmp_path / "m.gguf", **{"tokenizer.ggml.pre": name}))).tokenizer
    assert [piece for piece, _ in found.tokenizer.pre_tokenizer.pre_tokenize_str(text)] == words


def test_pairs_with_scores_are_joined_best_first(tmp_path: Path) -> None:
    """Against a tokenizer whose merges are written down; what is in no token is made of bytes."""
    pieces = ["<unk>", "<s>", END, *(f"<0x{n:02X}>" for n in range(256)), "▁", "a", "b", "c", "ab", "bc", "▁ab", "abc"]
    scores = [0.0] * 259 + [-9.0, -9.0, -9.0, -9.0, -3.0, -2.0, -1.0, -4.0]
    reference = Tokenizer(
        models.BPE(
            vocab={p: n for n, p in enumerate(pieces)},
            merges=[("▁", "ab"), ("b", "c"), ("a", "b"), ("ab", "c"), ("a", "bc")],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    reference.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    reference.add_special_tokens([AddedToken(END, special=True, normalized=False)])
    names = pieces + [f"<unused {n}>" for n in range(400 - len(pieces))]
    values = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": names,
        "tokenizer.ggml.scores": [*scores, *[-99.0] * (400 - len(scores))],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * 141],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    (tmp_path / "m.gguf").write_bytes(files.llama_gguf(CONFIG, metadata={**files.llama_metadata(CONFIG), **values}))
    found = ts.compile(ts.load(tmp_path / "m.gguf")).tokenizer
    for text in ("abc ab c", "cab", "a é", "abcabc"):
        assert found.encode(text) == [1, *reference.encode(text).ids]
        assert found.decode(found.encode(text)) == text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokenizer.ggml.pre": "other"}, "splits text as 'other' does"),
        ({"tokenizer.ggml.model": "bert"}, "of the kind 'bert'"),
        ({"tokenizer.ggml.merges": ["a"]}, "not pairs"),
        ({"tokenizer.ggml.merges": ["not there"]}, "cannot be made"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "give numbers of tokens"),
    ],
)
def test_tokenizers_that_cannot_be_made_leave_numbers(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    lm = ts.compile(ts.load(model(tmp_path / "m.gguf", **change)))
    with pytest.raises(ts.UserError, match=words):
        lm.generate("text")
    assert len(lm.generate([1], max_new_tokens=2, ignore_end=True)) == 2


def test_a_text_in_pieces_is_the_whole_text(lm: Generator) -> None:
    """Random tokens are pieces of characters as often as not: nothing is shown before it is certain."""
    for seed in range(6):
        settings: dict[str, Any] = {"max_new_tokens": 40, "temperature": 2.0, "seed": seed, "ignore_end": True}
        done = lm.complete("Once", **settings)
        assert done.text == lm.tokenizer.decode(done.tokens)
        pieces = list(lm.stream("Once", **settings))
        assert "".join(pieces) == done.text == lm.generate("Once", **settings)
        assert not any(p.endswith("\ufffd") for p in pieces[:-1])


def test_stops_end_a_text_and_are_not_in_it(lm: Generator) -> None:
    settings: dict[str, Any] = {"max_new_tokens": 40, "temperature": 2.0, "seed": 3, "ignore_end": True}
    text = lm.generate("Once", **settings)
    for length in (1, 2, 5):
        stop = text[10 : 10 + length]
        wanted = text[: text.index(stop)]
        assert lm.generate("Once", stop=stop, **settings) == wanted
        assert "".join(lm.stream("Once", stop=[stop, "never there"], **settings)) == wanted


def test_folders_have_their_tokenizer(tmp_path: Path, lm: Generator) -> None:
    folder = files.folder(tmp_path / "model", CONFIG)
    byte_pairs().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "bos_token": {"content": END}}))
    found = ts.compile(ts.load(folder))
    assert found.generate("Once", max_new_tokens=10, ignore_end=True) == lm.generate("Once", max_new_tokens=10, ignore_end=True)
    assert found.model.chat_template == TEMPLATE
    assert found.model.special["bos_token"] == END


@pytest.fixture(scope="module")
def server(lm: Generator) -> Iterator[Server]:
    found = Server(lm, port=0)
    thread = threading.Thread(target=lambda: found.serve_forever(poll_interval=0.02))
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def asked(server: Server, path: str, body: dict[str, Any]) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return connection.getresponse().read()


def test_a_chat_is_its_template(server: Server, lm: Generator) -> None:
    messages = [{"role": "user", "content": "hello"}]
    settings = {"temperature": 0, "max_tokens": 12, "ignore_eos": True}
    prompt = lm.tokenizer.encode(f"{END}[user]hello[assistant]", special=False)
    wanted = lm.tokenizer.decode(lm.generate(prompt, max_new_tokens=12, ignore_end=True))
    answer = json.loads(asked(server, "/v1/chat/completions", {"messages": messages, **settings}))
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": wanted}
    assert answer["usage"]["prompt_tokens"] == len(prompt)
    events = asked(server, "/v1/chat/completions", {"messages": messages, "stream": True, **settings}).decode().split("\n\n")
    pieces = [json.loads(e.removeprefix("data: ")) for e in events if e.startswith("data: {")]
    assert pieces[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(p["choices"][0]["delta"].get("content", "") for p in pieces) == wanted
    completion = json.loads(asked(server, "/v1/completions", {"prompt": "Once", "stop": "e", **settings}))
    assert completion["choices"][0]["text"] == lm.generate("Once", max_new_tokens=12, stop="e", ignore_end=True)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('only users') }}", "only users"),
        ("{% for", "cannot be used"),
        ("{{ messages[5].content }}", "cannot be used"),
        ("{{ messages.__class__.__mro__ }}", "cannot be used"),
        ("{{ 'x' * 2000000 }}", "characters long"),
    ],
)
def test_templates_that_fail_say_so(template: str, words: str) -> None:
    from tensorsmith.language.chat import conversation

    with pytest.raises(ts.UserError, match=words):
        conversation(template, {}, [{"role": "user", "content": "hello"}])


def test_the_command_shows_the_text(file: Path, lm: Generator) -> None:
    said = CliRunner().invoke(app, ["generate", str(file), "-p", "Once", "-n", "10", "--ignore-end"])
    assert said.exit_code == 0
    wanted = lm.generate("Once", max_new_tokens=10, ignore_end=True)
    assert [c for c in said.stdout if c.isalnum()] == [c for c in wanted if c.isalnum()]


def test_random_prompts_of_text_go_through(lm: Generator) -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        text = "".join(chr(int(n)) for n in random.integers(1, 0x2FFF, 6))
        assert lm.tokenizer.decode(lm.tokenizer.encode(text)) == text
