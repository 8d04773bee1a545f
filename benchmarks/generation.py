"""Language models token by token, beside llama.cpp (xllamacpp): random weights of real sizes, the same GGUF file for both.

    python benchmarks/generation.py                                  # both sizes, Q8_0 and Q4_0
    python benchmarks/generation.py --sizes smollm --formats q4_0 --prompt 1024 --json generation.json

Each system runs alone, in a process of its own, because both keep their threads spinning; they take turns, `--rounds` times.
A process loads the file, reads a prompt that nobody has read before, writes `--tokens` tokens behind it, and does that again with
other prompts, all numbers of tokens. Times are the best of all rounds; what compiles, and what warms up, is the first prompt's.
The first token behind each of some short prompts is compared, too: with random weights it differs where logits are all but equal,
so that this says whether the network is the same, and not how exact its weights are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from rich.table import Table

import tensorsmith as ts
from report import console, write_json
from rows import OURS
from tensorsmith.language.files import load
from tensorsmith.targets.target import native

PEER = "llama.cpp"
_CHECKED = 8  # prompts whose first token is compared
_SHORT = 16  # tokens of those


@dataclass(frozen=True)
class Size:
    """The sizes of a network; `inner` of two (GPT-2) or three products."""

    family: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    key_heads: int
    inner: int


SIZES = {
    "gpt2": Size("gpt2", 50_257, 768, 12, 12, 12, 3072),
    "smollm": Size("llama", 49_152, 576, 30, 9, 3, 1536),
    "qwen2.5-0.5b": Size("llama", 151_936, 896, 24, 14, 2, 4864),
}


def write_model(path: Path, size: Size, format: str, context: int = 2048) -> None:
    """A file of random weights, with a tokenizer of single bytes, which llama.cpp wants to see."""
    random, writer = np.random.default_rng(0), gguf.GGUFWriter(path, size.family)
    writer.add_context_length(context)
    writer.add_embedding_length(size.width)
    writer.add_block_count(size.layers)
    writer.add_feed_forward_length(size.inner)
    writer.add_head_count(size.heads)
    writer.add_head_count_kv(size.key_heads)
    if size.family == "gpt2":
        writer.add_layer_norm_eps(1e-5)
    else:
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_dimension_count(size.width // size.heads)
    names = [f"<{n}>" for n in range(size.vocabulary)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(names)
    writer.add_token_types([1] * size.vocabulary)
    writer.add_token_merges(["< 1"])
    writer.add_eos_token_id(0)
    kind = getattr(gguf.GGMLQuantizationType, format.upper())

    def matrix(name: str, rows: int, columns: int) -> None:
        weights = (random.standard_normal((rows, columns), np.float32)) / np.float32(np.sqrt(columns))
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(weights, kind), raw_dtype=kind)

    def vector(name: str, length: int, value: float = 0) -> None:
        writer.add_tensor(name, np.full(length, value, np.float32))

    keys = size.width // size.heads * size.key_heads
    matrix("token_embd", size.vocabulary, size.width)
    vector("output_norm.weight", size.width, 1)
    if size.family == "gpt2":
        vector("output_norm.bias", size.width)
        writer.add_tensor("position_embd.weight", random.standard_normal((context, size.width), np.float32) / 10)
    for n in range(size.layers):
        at = f"blk.{n}."
        matrices = {
            "attn_output": (size.width, size.width),
            "ffn_up": (size.inner, size.width),
            "ffn_down": (size.width, size.inner),
        }
        if size.family == "gpt2":
            matrices["attn_qkv"] = (3 * size.width, size.width)
        else:
            matrices |= {"attn_q": (size.width, size.width), "attn_k": (keys, size.width), "attn_v": (keys, size.width)}
            matrices["ffn_gate"] = (size.inner, size.width)
        for name, shape in matrices.items():
            matrix(at + name, *shape)
            if size.family == "gpt2":
                vector(f"{at}{name}.bias", shape[0])
        for name in ("attn_norm", "ffn_norm"):
            vector(f"{at}{name}.weight", size.width, 1)
            if size.family == "gpt2":
                vector(f"{at}{name}.bias", size.width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


#: reads a prompt and writes some tokens: those, the seconds until the first, and of each behind it
Write = Callable[[list[int], int], tuple[list[int], float, float]]


def ours(file: str, threads: int, weights: str | None) -> Write:
    lm = ts.compile(load(Path(file)), threads=threads, weights=weights)

    def write(prompt: list[int], count: int) -> tuple[list[int], float, float]:
        times, found = [time.perf_counter()], []
        for token in lm.stream(prompt, max_new_tokens=count, ignore_end=True):
            times.append(time.perf_counter())
            found.append(token)
        return found, times[1] - times[0], (times[-1] - times[1]) / max(count - 1, 1)

    return write


def llama_cpp(file: str, threads: int, context: int) -> Write:
    import xllamacpp

    given = xllamacpp.CommonParams()
    given.model.path, given.n_ctx, given.n_parallel = file, context, 1
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(given)

    def write(prompt: list[int], count: int) -> tuple[list[int], float, float]:
        order = {"prompt": prompt, "max_tokens": count, "n_predict": count, "temperature": 0, "ignore_eos": True}
        found: Any = server.handle_completions({**order, "cache_prompt": False, "return_tokens": True, "n_probs": 1, "logprobs": 1})
        found = json.loads(found) if isinstance(found, str) else found
        times = found["timings"]
        text = found.get("text") or found["choices"][0].get("text") or ""
        tokens = found.get("tokens") or [int(n) for n in text.strip("<>").split("><") if n.isdigit()]
        return tokens, times["prompt_ms"] / 1e3, times["predicted_per_token_ms"] / 1e3

    return write


def run(system: str, file: str, threads: int, prompt: int, tokens: int, weights: str | None, seed: int) -> dict[str, Any]:
    """What one process does; the first prompt compiles and warms up."""
    context = prompt + tokens + 64
    begin = time.perf_counter()
    write = ours(file, threads, weights) if system == OURS else llama_cpp(file, threads, context)
    random = np.random.default_rng(seed)
    prompts = [random.integers(10, 3000, prompt).tolist() for _ in range(4)]
    write(prompts[0], tokens)
    warm = time.perf_counter() - begin
    taken = [write(p, tokens)[1:] for p in prompts[1:]]
    fixed = [np.random.default_rng(n).integers(10, 3000, _SHORT).tolist() for n in range(_CHECKED)]
    first = [write(p, 1)[0][:1] for p in fixed]
    return {"first": first, "warm": warm, "prompt": min(t[0] for t in taken), "token": min(t[1] for t in taken)}


def alone(system: str, arguments: argparse.Namespace, file: Path, seed: int) -> dict[str, Any]:
    """`run` in a process of its own."""
    words = [
        sys.executable,
        __file__,
        "--run",
        system,
        "--file",
        str(file),
        "--seed",
        str(seed),
        "--threads",
        str(arguments.threads),
    ]
    words += ["--prompt", str(arguments.prompt), "--tokens", str(arguments.tokens)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{system} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="gpt2,smollm", help=f"some of {', '.join(SIZES)}")
    parser.add_argument("--formats", default="q8_0,q4_0", help="of matrices: f16, q8_0, q4_0")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=64, help="that are written")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=native().cores)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--run", choices=(OURS, PEER), help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        print(json.dumps(run(given.run, given.file, given.threads, given.prompt, given.tokens, None, given.seed)))
        return
    table = Table(
        title=f"prompts of {given.prompt} tokens, {given.tokens} written, {given.threads} threads; ms, and times llama.cpp"
    )
    for column in ("", "prompt", "", "times", "token", "", "times", "same first token"):
        table.add_column(column, justify="right" if column else "left")
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in given.sizes.split(","):
            for format in given.formats.split(","):
                file = Path(folder) / f"{name}-{format}.gguf"
                write_model(file, SIZES[name], format)
                rounds = [{s: alone(s, given, file, n) for s in (OURS, PEER)} for n in range(1, given.rounds + 1)]
                file.unlink()
                best = {s: {k: min(r[s][k] for r in rounds) for k in ("prompt", "token", "warm")} for s in (OURS, PEER)}
                same = sum(a == b for a, b in zip(*(rounds[0][s]["first"] for s in (OURS, PEER))))
                cells = [f"{name} {format}"]
                for what in ("prompt", "token"):
                    mine, theirs = best[OURS][what], best[PEER][what]
                    cells += [f"{mine * 1e3:.2f}", f"{theirs * 1e3:.2f}", f"{theirs / mine:.2f}"]
                table.add_row(*cells, f"{same} of {_CHECKED}")
                ratio = best[PEER]["token"] / best[OURS]["token"]
                rows[f"{name} {format}"] = {
                    "ratio_to_best_peer": ratio,
                    "best_peer": PEER,
                    "seconds": best,
                    "same_first_tokens": same,
                }
    console().print(table)
    if given.json:
        write_json(given.json, rows)


if __name__ == "__main__":
    main()
