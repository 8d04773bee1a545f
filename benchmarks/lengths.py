"""A network of any length, called as a server is: with other lengths all the time, compiling included.

    python benchmarks/lengths.py                                   # a transformer of six layers, made here with random weights
    python benchmarks/lengths.py --requests 200 --longest 300 --json lengths.json
    python benchmarks/lengths.py model.onnx --open length --fixed batch=1

Every system gets the same requests of random lengths in the same order, in a process of its own: it loads the model, answers all
requests once, and then again. A system's outputs at some lengths are compared with those of the first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from models import CACHE

SYSTEMS = ("tensorsmith", "onnxruntime")
_TOLERANCE = 1e-3  # of the largest number of the outputs
_COMPARED = 8  # requests whose outputs are compared

Run = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True)
class Measured:
    """Seconds of loading and of every request, in the first pass and in the second; `bytes` of memory at most, of the process."""

    load: float
    first: list[float]
    second: list[float]
    bytes: int


def transformer() -> Path:
    """A file with the encoder of a small sentence transformer: six layers, 384 wide, twelve heads, random weights."""
    path = CACHE / "encoder-6x384.onnx"
    if path.exists():
        return path
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=3000, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
        max_position_embeddings=512, attn_implementation="eager",  # type: ignore[call-arg]
    )  # fmt: skip

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = BertModel(config, add_pooling_layer=False)

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            types = torch.zeros_like(input_ids)
            hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=types).last_hidden_state
            kept = attention_mask.unsqueeze(-1).to(hidden.dtype)
            return hidden, (hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9)

    dims = {0: "batch", 1: "length"}
    ids, mask = torch.zeros(2, 16, dtype=torch.long), torch.ones(2, 16, dtype=torch.long)
    CACHE.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        torch.onnx.export(
            Pooled().eval(), (ids, mask), str(path), input_names=["input_ids", "attention_mask"], output_names=["hidden", "pooled"],
            dynamic_axes={"input_ids": dims, "attention_mask": dims, "hidden": dims, "pooled": {0: "batch"}},
            opset_version=17, dynamo=False,
        )  # fmt: skip
    return path


def opened(system: str, path: Path, symbol: str, fixed: dict[str, int], threads: int) -> Run:
    """A function that runs the model."""
    if system == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return lambda inputs: session.run(None, inputs)  # type: ignore[no-any-return]
    import tensorsmith as ts

    model: Any = ts.load(str(path), shapes={**fixed, symbol: None})
    executable = ts.compile(model, threads=threads)
    return lambda inputs: list(executable.run(inputs).values())


def inputs_of(path: Path, sizes: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    """Inputs of those sizes: small indices, masks of ones with some zeros at the end, floats in -1..1."""
    import onnx

    generator = np.random.default_rng(seed)
    found = {}
    for value in onnx.load(str(path), load_external_data=False).graph.input:
        kind = value.type.tensor_type
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if "mask" in value.name:
            array = np.ones(shape, dtype)
            array[..., shape[-1] - shape[-1] // 4 :] = 0
        elif np.issubdtype(dtype, np.integer):
            array = generator.integers(0, 1000, shape).astype(dtype)
        else:
            array = generator.uniform(-1, 1, shape).astype(dtype)
        found[value.name] = array
    return found


def work(given: argparse.Namespace) -> None:
    """What the process of one system does: its times, and some outputs, go to files."""
    order = json.loads(Path(given.order).read_text())
    fixed = {name: int(n) for name, _, n in (word.partition("=") for word in given.fixed)}
    requests = [inputs_of(given.model, {**fixed, given.open: n}, seed) for seed, n in enumerate(order)]
    begun = time.perf_counter()
    run = opened(given.system, given.model, given.open, fixed, given.threads)
    load = time.perf_counter() - begun
    passes: list[list[float]] = []
    outputs: list[list[np.ndarray]] = []
    for number in range(2):
        seconds = []
        for inputs in requests:
            begun = time.perf_counter()
            found = run(inputs)
            seconds.append(time.perf_counter() - begun)
            if number and len(outputs) < _COMPARED:
                outputs.append(found)
        passes.append(seconds)
    arrays = {f"{n}.{m}": array for n, found in enumerate(outputs) for m, array in enumerate(found)}
    np.savez(f"{given.result}.npz", **arrays)
    status = Path("/proc/self/status").read_text()  # the most that this program had, which `getrusage` mixes with its parent's
    memory = int(next(text for text in status.splitlines() if text.startswith("VmHWM")).split()[1]) * 1024
    Path(given.result).write_text(json.dumps([load, *passes, memory]))


def measured(system: str, given: argparse.Namespace, folder: Path, order: Path) -> Measured:
    """The times of one system, in a process of its own."""
    result = folder / system
    words = [
        sys.executable,
        __file__,
        str(given.model),
        "--open",
        given.open,
        "--fixed",
        *given.fixed,
        "--threads",
        str(given.threads),
    ]
    subprocess.run([*words, "--system", system, "--order", str(order), "--result", str(result)], check=True)
    return Measured(*json.loads(result.read_text()))


def furthest(folder: Path, systems: Sequence[str]) -> float:
    """How far outputs of any system are off those of the first, as a part of the largest number there."""
    first, *others = (np.load(folder / f"{system}.npz") for system in systems)
    parts = [
        float(np.abs(other[name] - first[name]).max() / max(1e-9, np.abs(first[name]).max())) for other in others for name in first
    ]
    return max(parts, default=0.0)


def rows(found: dict[str, Measured]) -> dict[str, dict[str, float]]:
    """The figures of each system: seconds in all, of the median request and of the worst, for either pass, and memory."""
    made = {}
    for system, m in found.items():
        made[system] = {
            "load": m.load,
            "first_total": m.load + sum(m.first),
            "first_median": float(np.median(m.first)),
            "first_worst": max(m.first),
            "second_total": sum(m.second),
            "second_median": float(np.median(m.second)),
            "second_worst": max(m.second),
            "bytes": float(m.bytes),
        }
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, help="an ONNX file; default: the transformer")
    parser.add_argument("--open", default="length", help="the dimension whose size varies")
    parser.add_argument("--fixed", nargs="*", default=["batch=1"], help="sizes of other open dimensions")
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--shortest", type=int, default=5)
    parser.add_argument("--longest", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--json", type=Path)
    for name in ("--system", "--order", "--result"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.model = given.model or transformer()
    if given.system:
        work(given)
        return
    order = np.random.default_rng(given.seed).integers(given.shortest, given.longest + 1, given.requests).tolist()
    systems = given.systems.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "order").write_text(json.dumps(order))
        found = {system: measured(system, given, folder, folder / "order") for system in systems}
        off = furthest(folder, systems)
    if off > _TOLERANCE:
        raise SystemExit(f"outputs differ by {off:.2g} of the largest number")
    figures = rows(found)
    table = Table(title=f"{len(order)} requests of {len(set(order))} lengths from {min(order)} to {max(order)}")
    for column in ("", "load and all requests", "median", "worst", "all again", "median", "worst", "memory"):
        table.add_column(column, justify="left" if not column else "right")
    for system, row in figures.items():
        cells = [f"{row[f'first_{key}']:.3f} s" for key in ("total", "median", "worst")]
        cells += [f"{row[f'second_{key}']:.3f} s" for key in ("total", "median", "worst")]
        table.add_row(system, *cells, f"{row['bytes'] / 2**20:.0f} MiB")
    Console().print(table)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
