"""Networks with random weights, in small configurations: the five of the paper and a dozen of other kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Network = tuple[nn.Module, Any]  # a module in inference mode, and example inputs for it

VOCABULARY = 50


def _image(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def _tokens(length: int = 7) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (1, length))


def _calibrated(module: nn.Module, example: torch.Tensor) -> nn.Module:
    """In inference mode, batch norms with the statistics of random inputs: else activations blow up or vanish."""
    module.train()
    with torch.no_grad():
        for layer in module.modules():
            if hasattr(layer, "momentum"):
                layer.momentum = None  # a plain average
        for _ in range(2):
            module(torch.randn_like(example))
    return module.eval()


# -- of the paper ------------------------------------------------------------------------------------------------------


def resnet50() -> Network:
    from benchmarks.zoo.vision import ResNet50

    return _calibrated(ResNet50(10), torch.empty(32, 3, 64, 64)), _image(1, 3, 64, 64)


def mobilenet_v2() -> Network:
    from benchmarks.zoo.vision import MobileNetV2

    return _calibrated(MobileNetV2(10), torch.empty(4, 3, 64, 64)), _image(1, 3, 64, 64)


def resnet3d_18() -> Network:
    from benchmarks.zoo.vision import ResNet3D18

    return _calibrated(ResNet3D18(10), torch.empty(4, 3, 4, 32, 32)), _image(1, 3, 4, 32, 32)


def dcgan() -> Network:
    from benchmarks.zoo.vision import DCGAN

    return _calibrated(DCGAN(), torch.empty(8, 100, 1, 1)), _image(1, 100, 1, 1)


def bert() -> Network:
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    module = BertModel(BertConfig(vocab_size=VOCABULARY, max_position_embeddings=16, **sizes))
    mask = torch.ones(1, 7, dtype=torch.int64)
    mask[0, 5:] = 0
    return module.eval(), {"input_ids": _tokens(), "attention_mask": mask}


# -- of transformers ---------------------------------------------------------------------------------------------------


def vit() -> Network:
    from transformers import ViTConfig, ViTModel

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return ViTModel(ViTConfig(image_size=32, patch_size=8, **sizes)).eval(), {"pixel_values": _image(1, 3, 32, 32)}


def efficientnet() -> Network:
    from transformers import EfficientNetConfig, EfficientNetModel

    config = EfficientNetConfig(
        image_size=32, width_coefficient=0.5, depth_coefficient=0.5, hidden_dim=640, kernel_sizes=[3, 5], in_channels=[32, 16],
        out_channels=[16, 24], strides=[1, 2], num_block_repeats=[1, 2], expand_ratios=[1, 6], depthwise_padding=[],
    )  # fmt: skip
    return _calibrated(EfficientNetModel(config), torch.empty(4, 3, 32, 32)), {"pixel_values": _image(1, 3, 32, 32)}


def convnext() -> Network:
    from transformers import ConvNextConfig, ConvNextModel

    config = ConvNextConfig(hidden_sizes=[8, 16, 32, 32], depths=[1, 1, 2, 1], image_size=64, layer_scale_init_value=0.1)
    return ConvNextModel(config).eval(), {"pixel_values": _image(1, 3, 64, 64)}


def swin() -> Network:
    from transformers import SwinConfig, SwinModel

    config = SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
    return SwinModel(config).eval(), {"pixel_values": _image(1, 3, 32, 32)}


def whisper_encoder() -> Network:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    sizes = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
    config = WhisperConfig(num_mel_bins=16, max_source_positions=20, **sizes)
    return WhisperEncoder(config).eval(), {"input_features": _image(1, 16, 40)}


def gpt2() -> Network:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=VOCABULARY, n_positions=16, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    return GPT2LMHeadModel(config).eval(), {"input_ids": _tokens()}


def t5_encoder() -> Network:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    return T5EncoderModel(config).eval(), {"input_ids": _tokens()}


def clip() -> Network:
    from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = CLIPTextConfig(vocab_size=VOCABULARY, max_position_embeddings=16, bos_token_id=0, eos_token_id=2, **sizes)
    vision = CLIPVisionConfig(image_size=32, patch_size=8, **sizes)
    config = CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16)
    inputs = {"input_ids": _tokens(), "pixel_values": _image(1, 3, 32, 32), "attention_mask": torch.ones(1, 7, dtype=torch.int64)}
    return CLIPModel(config).eval(), inputs


def mixtral() -> Network:
    """A mixture of experts: products by groups of rows."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=64, use_cache=False,
    )  # fmt: skip
    return MixtralForCausalLM(config).eval(), {"input_ids": torch.randint(0, 64, (1, 7))}


def llama() -> Network:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=2, max_position_embeddings=16, use_cache=False, **sizes)
    return LlamaForCausalLM(config).eval(), {"input_ids": _tokens()}


# -- of our own --------------------------------------------------------------------------------------------------------


def _block(channels: int, out: int, dilation: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, out, 3, padding=dilation, dilation=dilation), nn.BatchNorm2d(out), nn.ReLU())


class UNet(nn.Module):
    """Down by pooling, up by transposed convolutions, joined by concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.middle = _block(3, 8), _block(8, 16), _block(16, 32)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.back2, self.back1, self.head = _block(32, 16), _block(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.first(x)
        second = self.second(F.max_pool2d(first, 2))
        middle = self.middle(F.max_pool2d(second, 2))
        second = self.back2(torch.cat([self.up2(middle), second], 1))
        return self.head(self.back1(torch.cat([self.up1(second), first], 1)))


class DeepLab(nn.Module):
    """Dilated convolutions side by side and a pooled one, brought back to the image's size by bilinear interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.Hardswish())
        self.branches = nn.ModuleList([_block(16, 8, d) for d in (1, 2, 4)])
        self.pooled = nn.Conv2d(16, 8, 1)
        self.head = nn.Conv2d(32, 5, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        inner = self.stem(x)
        size = inner.shape[-2:]
        pooled = F.interpolate(self.pooled(F.adaptive_avg_pool2d(inner, 1)), size, mode="bilinear", align_corners=False)
        logits = self.head(torch.cat([*(branch(inner) for branch in self.branches), pooled], 1))
        return {"out": F.interpolate(logits, x.shape[-2:], mode="bilinear", align_corners=False), "labels": logits.argmax(1)}


class Tagger(nn.Module):
    """A bidirectional LSTM and a GRU over token embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 12)
        self.lstm = nn.LSTM(12, 8, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(16, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inner, (hidden, _) = self.lstm(self.words(tokens))
        return F.log_softmax(self.head(self.gru(inner)[0]), -1), hidden


class SqueezeExcite(nn.Module):
    """Depthwise convolutions with squeeze-and-excitation, SiLU, and a shuffle of pixels at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.deep = nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 5, padding=2, groups=16)
        self.squeeze, self.excite, self.out = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1), nn.Conv2d(16, 12, 3, padding="same")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.silu(self.deep(F.gelu(self.expand(x))))
        gate = torch.sigmoid(self.excite(F.silu(self.squeeze(inner.mean((2, 3), keepdim=True)))))
        return F.pixel_shuffle(self.out(inner * gate), 2)


def unet() -> Network:
    return _calibrated(UNet(), torch.empty(4, 3, 32, 32)), _image(1, 3, 32, 32)


def deeplab() -> Network:
    return _calibrated(DeepLab(), torch.empty(4, 3, 24, 24)), _image(1, 3, 24, 24)


def tagger() -> Network:
    return Tagger().eval(), _tokens()


def squeeze_excite() -> Network:
    return SqueezeExcite().eval(), _image(1, 3, 16, 16)


def transformer_encoder() -> Network:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), _image(1, 6, 16)


PAPER: dict[str, Callable[[], Network]] = {
    f.__name__: f for f in (resnet50, mobilenet_v2, resnet3d_18, dcgan, bert)
}  # fmt: skip
OTHERS: dict[str, Callable[[], Network]] = {
    f.__name__: f
    for f in (
        vit, efficientnet, convnext, swin, whisper_encoder, gpt2, t5_encoder, clip, llama, mixtral, unet, deeplab, tagger,
        squeeze_excite,
        transformer_encoder,
    )
}  # fmt: skip


def network(name: str) -> Network:
    """A network by its name, the same weights every time."""
    torch.manual_seed(0)
    return {**PAPER, **OTHERS}[name]()
