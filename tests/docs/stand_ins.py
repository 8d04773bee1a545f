"""What pages speak of and do not make: small files of the names that they use, and values of their variables.

A page says `model.onnx`, `x`, `MyPolicy` and means the reader's own. In the tests `model.onnx` is a tiny network, and budgets are
tiny too (`tiny`): what a snippet calls, and with which arguments, is as printed on the page; how long it takes is not.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.docs.blocks import ROOT
from tests.language import files as language

import tensorsmith as ts
from tensorsmith.backends import rule_set, space_of
from tensorsmith.build import build
from tensorsmith.ops import catalogue
from tensorsmith.plugins import load as load_plugin
from tensorsmith.records import Store, Timing
from tensorsmith.search.policies.random import RandomPolicy
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.plain import plain_candidate
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import native

Names = dict[str, Any]
Shape = tuple[int | str, ...]

TRIALS = 2  # instead of any number of trials or seconds
_SHORT = 0.05  # seconds of a `bench`

#: what `model.onnx` may be: the shape of its input in the file, and that of the array `x` of the page
MODELS: dict[str, tuple[Shape, tuple[int, ...]]] = {
    "closed": ((1, 3, 128, 128), (1, 3, 128, 128)),  # all sizes known
    "open": (("batch", 3, "length", "length"), (1, 3, 128, 128)),
    "batched": (("batch", 3, 16, 16), (1, 3, 16, 16)),
    "images": (("batch", 3, 224, 224), (1, 3, 224, 224)),
}


def write_model(path: Path, shape: Shape) -> None:
    """A classifier: a convolution, two poolings, a product and a softmax, each a task of its own."""
    random = np.random.default_rng(1)
    weights = {"w": random.standard_normal((8, 3, 1, 1)), "v": random.standard_normal((8, 8))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["z"]),
        helper.make_node("Relu", ["z"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"]),
    ]
    constants = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (shape[0], 8))
    graph = helper.make_graph(nodes, path.stem, [x], [y], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made)
    path.write_bytes(made.SerializeToString())


def tiny(text: str) -> str:
    """A snippet with tiny budgets, and with a computation and the usual rules where the page writes `...` for them."""
    text = re.sub(r"\b(?:seconds|trials)=\d+", f"trials={TRIALS}", text)
    text = re.sub(r'\beffort="(?!model")\w+"', rf"\g<0>, trials={TRIALS}", text)
    text = text.replace("ts.tune(...,", f"ts.tune(computation, trials={TRIALS},")
    return text.replace("[MyRule(), ...]", "[MyRule(), *rule_set()]")


def tiny_command(words: list[str]) -> list[str]:
    """The words of a command with tiny budgets, and without modules of PyTorch beside models."""
    found = [w for w in words if not (w.startswith("my_model.py:") and any(other.endswith(".onnx") for other in words))]
    for n, word in enumerate(found[:-1]):
        if word in ("--time", "--trials"):
            found[n : n + 2] = "--trials", str(TRIALS)
    if found[:2] == ["tensorsmith", "tune"] and "--trials" not in found:
        found += ["--trials", str(TRIALS)]
    if found[:2] == ["tensorsmith", "bench"]:
        found += ["--seconds", str(_SHORT)]
    if found[:2] == ["tensorsmith", "demo"]:
        found += ["--seconds", "0"]
    return found


def matmul(n: int) -> list[Any]:
    """Inputs and outputs of relu(A @ B), B constant."""
    a, b = ts.placeholder((n, n), name="A"), ts.placeholder((n, n), name="B", constant=True)
    k = ts.reduce_axis(n, name="k")
    c = ts.compute((n, n), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")
    return [a, b, ts.compute((n, n), lambda i, j: ts.maximum(c[i, j], 0.0), name="D")]


# -- of the pages ------------------------------------------------------------------------------------------------------


def prepare(page: str, folder: Path, records: Path) -> Names:
    """Makes the files of a page in a folder, and gives the names that its snippets find. `records`: a record file of the closed
    model."""
    names: Names = {"ts": ts, "np": np}
    (folder / "out").mkdir()
    if page in PREPARED:
        PREPARED[page](folder, names, records)
    return names


def use_model(folder: Path, names: Names, kind: str) -> None:
    """From now on `model.onnx` is that one, and `x` an input of it, in memory and in files. One whose sizes are all known is also
    loaded as `model` and compiled as `exe`, for pages that go on with these."""
    shape, given = MODELS[kind]
    write_model(folder / "model.onnx", shape)
    names["x"] = np.random.default_rng(0).standard_normal(given).astype(np.float32)
    np.save(folder / "x.npy", names["x"])
    np.savez(folder / "inputs.npz", x=names["x"])
    if shape == given:
        names["model"] = ts.load(folder / "model.onnx")
        names["exe"] = ts.compile(names["model"])


def _closed(folder: Path, names: Names, records: Path) -> None:
    use_model(folder, names, "closed")
    shutil.copy(records, folder / "tune.db")


def _batched(folder: Path, names: Names, records: Path) -> None:
    use_model(folder, names, "batched")
    shutil.copy(records, folder / "tune.db")


def _howto(folder: Path, names: Names, records: Path) -> None:
    shutil.copy(records, folder / "tune.db")
    use_model(folder, names, "closed")
    names["batches"] = [names["x"]] * 2
    named = catalogue.get("C2D-3-b1").workload()
    with Store.open(folder / "tune.db") as store:
        store.add(named, native(), Timing("warm", native().cores), [Trial(plain_candidate(named), Status.OK, 1e-3)])
    for name in ("resnet", "detector"):
        write_model(folder / f"{name}.onnx", (1, 3, 4, 4))
        names[name] = ts.load(folder / f"{name}.onnx")
    Store.open(folder / "other.db").close()


def _commands(folder: Path, names: Names, records: Path) -> None:
    _closed(folder, names, records)
    for name in ("a", "b"):
        write_model(folder / f"{name}.onnx", (1, 3, 4, 4))


def _executables(folder: Path, names: Names, records: Path) -> None:
    use_model(folder, names, "images")
    names["batches"] = [names["x"]] * 2
    shutil.copy(records, folder / "tune.db")


def _plugins(folder: Path, names: Names, records: Path) -> None:
    examples = ROOT / "examples"
    mine = {
        "MyPolicy": f"{examples}/policy_hill_climb.py:HillClimb",
        "MyRule": f"{examples}/rule_short_window.py:ShortWindow",
        "MyModel": f"{examples}/cost_model_ridge.py:Ridge",
    }
    names |= {name: load_plugin(name, place) for name, place in mine.items()}
    (folder / "mine.py").write_text(
        f'from tensorsmith.plugins import load\n\nMyModel = load("", "{mine["MyModel"]}")\n'
        f'RULES = load("", "{examples}/rule_short_window.py:RULES")\n'
    )
    (folder / "my_module.py").write_text(f'from tensorsmith.plugins import load\n\nMyPolicy = load("", "{mine["MyPolicy"]}")\n')
    write_model(folder / "MODEL.onnx", (1, 3, 4, 4))
    shutil.copy(records, folder / "tune.db")
    workload = ts.workload(matmul(16))
    target = native()
    names |= {"computation": workload, "target": target, "rule_set": rule_set, "make": names["MyPolicy"], "model": None}
    space = space_of(workload, target)
    names |= {"space": space, "candidates": [], "trials": [], "stop": lambda: False}
    made_up = [Trial(c, Status.OK, n * 1e-6) for n, c in enumerate(RandomPolicy(space).ask(32), 1)]
    with Store.open(folder / "tune.db") as store:  # enough for a model to learn from
        store.add(workload, target, Timing("warm", target.cores), made_up)


def _generation(folder: Path, names: Names, records: Path) -> None:
    (folder / "model.gguf").write_bytes(language.llama_gguf())


def _policies(folder: Path, names: Names, records: Path) -> None:
    write_model(folder / "MODEL.onnx", (1, 3, 4, 4))
    names["computation"] = ts.workload(matmul(16))


def _architecture(folder: Path, names: Names, records: Path) -> None:
    names |= {"Sketch": Sketch, "Nest": Nest, "Candidate": Candidate, "build": build, "workload": ts.workload(matmul(512))}


def _fleet(folder: Path, names: Names, records: Path) -> None:
    """`ssh` is a script that runs what it is told here."""
    use_model(folder, names, "closed")
    (folder / "bin").mkdir()
    ssh = folder / "bin" / "ssh"
    ssh.write_text(f'#!/bin/sh\nshift 2\nPYTHONPATH={ROOT / "src"} exec {sys.executable} "$@"\n')
    ssh.chmod(0o755)
    os.environ["PATH"] = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"  # put back behind the test


def _logs(folder: Path, names: Names, records: Path) -> None:
    shutil.copy(records, folder / "tune.db")
    shutil.copy(ROOT / "tests" / "records" / "ansor" / "logs" / "v100.matmul.jsonl", folder / "tasks.json")


PREPARED: dict[str, Callable[[Path, Names, Path], None]] = {
    "README.md": _batched,
    "docs/coming-from-tvm.md": _logs,
    "docs/commands.md": _commands,
    "docs/comparison.md": _closed,
    "docs/embedding.md": _batched,
    "docs/fleet.md": _fleet,
    "docs/formats.md": _closed,
    "docs/generation.md": _generation,
    "docs/how-long.md": _closed,
    "docs/no-trial.md": _closed,
    "docs/onnxruntime.md": _closed,
    "docs/howto.md": _howto,
    "docs/observe.md": _closed,
    "docs/open-sizes.md": _howto,
    "docs/random.md": _closed,
    "docs/requests.md": _batched,
    "docs/records.md": _howto,
    "docs/tuning.md": _howto,
    "docs/executables.md": _executables,
    "docs/locks.md": _closed,
    "docs/c-libraries.md": _closed,
    "docs/platforms.md": _closed,
    "docs/policies.md": _policies,
    "docs/report.md": _closed,
    "docs/plugins.md": _plugins,
    "docs/architecture.md": _architecture,
}
