"""PyTorch modules of many kinds, in the sizes that people run, with random weights: what `torch_models.py` compares.

Those of the paper are the benchmark's own; the transformers, and the networks of convolutions that transformers has, are its
models by configuration, nothing is downloaded. All take their inputs by name, at batch 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

WORDS = 128  # tokens of an encoder's input
PROMPT = 64  # tokens of a decoder's


@dataclass(frozen=True)
class Architecture:
    """A module in inference mode and its inputs by name, the same ones every time. `title` is for people."""

    name: str
    title: str
    module: nn.Module
    inputs: dict[str, Any]

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.module.parameters())


Made = tuple[nn.Module, dict[str, Any]]
_MAKERS: dict[str, tuple[str, Callable[[], Made]]] = {}


def get(name: str) -> Architecture:
    """Built outside of the inference mode, in which parameters could not be changed any more."""
    if name not in _MAKERS:
        raise SystemExit(f"there is no architecture {name!r}; there are {', '.join(_MAKERS)}")
    title, make = _MAKERS[name]
    with torch.inference_mode(False), torch.no_grad():
        torch.manual_seed(0)
        module, inputs = make()
        return Architecture(name, title, module.eval().requires_grad_(False), inputs)


def names() -> tuple[str, ...]:
    return tuple(_MAKERS)


def _architecture(title: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    def register(make: Callable[[], Made]) -> Callable[[], Made]:
        _MAKERS[make.__name__] = (title, make)
        return make

    return register


def _image(*shape: int) -> torch.Tensor:
    return torch.randn(1, *shape)


def _tokens(words: int, length: int) -> torch.Tensor:
    return torch.randint(0, words, (1, length))


def calibrated(module: nn.Module, *example: torch.Tensor) -> nn.Module:
    """In inference mode, batch norms with the statistics of random inputs: else activations blow up or vanish."""
    module.train()
    for layer in module.modules():
        if hasattr(layer, "momentum"):
            layer.momentum = None  # a plain average
    for _ in range(2):
        module(*(torch.randn_like(e) for e in example))
    return module.eval()


# -- of the paper ------------------------------------------------------------------------------------------------------


@_architecture("ResNet-50")
def resnet50() -> Made:
    from .vision import ResNet50

    return calibrated(ResNet50(), torch.empty(2, 3, 224, 224)), {"x": _image(3, 224, 224)}


@_architecture("MobileNet-V2")
def mobilenet_v2() -> Made:
    from .vision import MobileNetV2

    return calibrated(MobileNetV2(), torch.empty(2, 3, 224, 224)), {"x": _image(3, 224, 224)}


@_architecture("3D-ResNet-18")
def resnet3d_18() -> Made:
    from .vision import ResNet3D18

    return calibrated(ResNet3D18(), torch.empty(1, 3, 16, 112, 112)), {"x": _image(3, 16, 112, 112)}


@_architecture("DCGAN, generator")
def dcgan() -> Made:
    from .vision import DCGAN

    return calibrated(DCGAN(), torch.empty(8, 100, 1, 1)), {"z": _image(100, 1, 1)}


@_architecture("BERT-base")
def bert_base() -> Made:
    from transformers import BertConfig, BertModel

    inputs = {"input_ids": _tokens(30522, WORDS), "attention_mask": torch.ones(1, WORDS, dtype=torch.int64)}
    return BertModel(BertConfig()), inputs


# -- images ------------------------------------------------------------------------------------------------------------


@_architecture("ViT-B/16")
def vit() -> Made:
    from transformers import ViTConfig, ViTModel

    return ViTModel(ViTConfig()), {"pixel_values": _image(3, 224, 224)}


@_architecture("EfficientNet-B0")
def efficientnet() -> Made:
    from transformers import EfficientNetConfig, EfficientNetModel

    config = EfficientNetConfig(image_size=224, width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280)
    return calibrated(EfficientNetModel(config), torch.empty(2, 3, 224, 224)), {"pixel_values": _image(3, 224, 224)}


@_architecture("ConvNeXt-T")
def convnext() -> Made:
    from transformers import ConvNextConfig, ConvNextModel

    return ConvNextModel(ConvNextConfig(layer_scale_init_value=0.1)), {"pixel_values": _image(3, 224, 224)}


@_architecture("Swin-T")
def swin() -> Made:
    from transformers import SwinConfig, SwinModel

    return SwinModel(SwinConfig()), {"pixel_values": _image(3, 224, 224)}


@_architecture("SegFormer-B0, 256 x 256")
def segformer() -> Made:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    module = SegformerForSemanticSegmentation(SegformerConfig(num_labels=150))  # type: ignore[call-arg]
    return calibrated(module, torch.empty(2, 3, 256, 256)), {"pixel_values": _image(3, 256, 256)}


@_architecture("U-Net, 256 x 256")
def unet() -> Made:
    from .dense import UNet

    return calibrated(UNet(), torch.empty(2, 3, 64, 64)), {"x": _image(3, 256, 256)}


@_architecture("DeepLab v3 on ResNet-50")
def deeplab() -> Made:
    from .dense import DeepLabV3

    return calibrated(DeepLabV3(), torch.empty(2, 3, 64, 64)), {"x": _image(3, 224, 224)}


@_architecture("diffusion U-Net, 32 x 32")
def diffusion() -> Made:
    from .dense import DiffusionUNet

    return DiffusionUNet(), {"x": _image(3, 32, 32), "t": torch.tensor([250.0])}


# -- text, sound, both ---------------------------------------------------------------------------------------------------


@_architecture("Whisper tiny, encoder")
def whisper() -> Made:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    return WhisperEncoder(WhisperConfig()), {"input_features": _image(80, 3000)}


@_architecture("GPT-2")
def gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False)), {"input_ids": _tokens(50257, PROMPT)}


@_architecture("Llama, 163M")
def llama() -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=2048, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config), {"input_ids": _tokens(49152, PROMPT)}


@_architecture("T5 small, encoder")
def t5() -> Made:
    from transformers import T5Config, T5EncoderModel

    return T5EncoderModel(T5Config()), {"input_ids": _tokens(32128, WORDS)}


@_architecture("CLIP ViT-B/32")
def clip() -> Made:
    from transformers import CLIPConfig, CLIPModel

    length = 77
    inputs = {"input_ids": _tokens(49408, length), "pixel_values": _image(3, 224, 224)}
    return CLIPModel(CLIPConfig()), {**inputs, "attention_mask": torch.ones(1, length, dtype=torch.int64)}
