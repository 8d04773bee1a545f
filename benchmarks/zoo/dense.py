"""Networks from images to images: U-Net, DeepLab v3 on a ResNet-50, and the U-Net of a diffusion model."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from .vision import Bottleneck


def _twice(channels: int, out: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for source in (channels, out):
        layers += [nn.Conv2d(source, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Down by pooling, up by transposed convolutions, joined by concatenation; the width doubles with every level."""

    def __init__(self, width: int = 32, levels: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [width << level for level in range(levels + 1)]
        self.down = nn.ModuleList([_twice(a, b) for a, b in zip([3, *widths], widths)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1])])
        self.join = nn.ModuleList([_twice(2 * w, w) for w in reversed(widths[:-1])])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        for level, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for up, join, beside in zip(self.up, self.join, reversed(kept[:-1])):
            x = join(torch.cat([up(x), beside], 1))
        return self.head(x)


class DeepLabV3(nn.Module):
    """A ResNet-50 whose last two stages are dilated, convolutions of several dilations side by side with a pooled one, and the
    logits brought back to the image's size by bilinear interpolation."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        layers: list[nn.Module] = []
        channels = 64
        for width, blocks, stride, dilation in ((64, 3, 1, 1), (128, 4, 2, 1), (256, 6, 1, 2), (512, 3, 1, 4)):
            for n in range(blocks):
                layers.append(Bottleneck(channels, width, stride if n == 0 else 1, dilation))
                channels = 4 * width
        self.body = nn.Sequential(*layers)
        self.branches = nn.ModuleList([self._branch(channels, 1, 1), *(self._branch(channels, 3, d) for d in (12, 24, 36))])
        self.pooled = self._branch(channels, 1, 1)
        self.project, self.last = self._branch(5 * 256, 1, 1), self._branch(256, 3, 1)
        self.head = nn.Conv2d(256, classes, 1)

    @staticmethod
    def _branch(channels: int, kernel: int, dilation: int) -> nn.Sequential:
        padding = dilation if kernel == 3 else 0
        conv = nn.Conv2d(channels, 256, kernel, padding=padding, dilation=dilation, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(256), nn.ReLU())

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        inner = self.body(self.stem(x))
        pooled = F.interpolate(self.pooled(F.adaptive_avg_pool2d(inner, 1)), inner.shape[-2:], mode="bilinear", align_corners=False)
        joined = self.last(self.project(torch.cat([*(branch(inner) for branch in self.branches), pooled], 1)))
        return {"out": F.interpolate(self.head(joined), x.shape[-2:], mode="bilinear", align_corners=False)}


class _Residual(nn.Module):
    """Two convolutions behind group norms and SiLU, the time added between them."""

    def __init__(self, channels: int, out: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, channels), nn.SiLU(), nn.Conv2d(channels, out, 3, padding=1))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, out))
        self.second = nn.Sequential(nn.GroupNorm(32, out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1))
        self.shortcut = nn.Identity() if channels == out else nn.Conv2d(channels, out, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return self.shortcut(x) + self.second(self.first(x) + self.time(time)[:, :, None, None])


class _Attention(nn.Module):
    """Every pixel looks at all others."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.out = nn.GroupNorm(32, channels), nn.Conv2d(channels, channels, 1)
        self.inner = nn.Conv2d(channels, 3 * channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        query, key, value = self.inner(self.norm(x)).reshape(batch, 3, 1, channels, height * width).transpose(-1, -2).unbind(1)
        seen = F.scaled_dot_product_attention(query, key, value)
        return x + self.out(seen.transpose(-1, -2).reshape(x.shape))


class DiffusionUNet(nn.Module):
    """The noise of an image at a time (DDPM's network for CIFAR-10): residual blocks with group norms, attention at 16 x 16."""

    def __init__(self, width: int = 128, factors: tuple[int, ...] = (1, 2, 2, 2), blocks: int = 2, attention: int = 1) -> None:
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        channels, kept = width, [width]
        for level, factor in enumerate(factors):
            for _ in range(blocks):
                self.down.append(self._block(channels, factor * width, time, level == attention))
                channels = factor * width
                kept.append(channels)
            if level < len(factors) - 1:
                self.down.append(nn.Conv2d(channels, channels, 3, 2, 1))
                kept.append(channels)
        self.middle = nn.ModuleList([self._block(channels, channels, time, True), self._block(channels, channels, time, False)])
        for level, factor in reversed(list(enumerate(factors))):
            for _ in range(blocks + 1):
                self.up.append(self._block(channels + kept.pop(), factor * width, time, level == attention))
                channels = factor * width
            if level:
                self.up.append(nn.Conv2d(channels, channels, 3, padding=1))
        self.head = nn.Sequential(nn.GroupNorm(32, channels), nn.SiLU(), nn.Conv2d(channels, 3, 3, padding=1))

    @staticmethod
    def _block(channels: int, out: int, time: int, attention: bool) -> nn.ModuleList:
        return nn.ModuleList([_Residual(channels, out, time), *([_Attention(out)] if attention else [])])

    def _through(self, block: nn.Module, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        if not isinstance(block, nn.ModuleList):
            return block(x)
        for layer in block:
            x = layer(x, time) if isinstance(layer, _Residual) else layer(x)
        return x

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        half = self.width // 2
        angles = t[:, None] * torch.exp(torch.arange(half, device=t.device) * (-math.log(10000.0) / (half - 1)))
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        x = self.stem(x)
        kept = [x]
        for block in self.down:
            x = self._through(block, x, time)
            kept.append(x)
        for block in self.middle:
            x = self._through(block, x, time)
        for block in self.up:
            if isinstance(block, nn.ModuleList):
                x = self._through(block, torch.cat([x, kept.pop()], 1), time)
            else:
                x = block(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.head(x)
