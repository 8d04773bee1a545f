"""ResNet-50, MobileNet-V2, 3D-ResNet-18 and the DCGAN generator."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3, 1 x 1 convolutions around a shortcut; the stride, and the dilation, are in the middle one."""

    def __init__(self, channels: int, width: int, stride: int, dilation: int = 1) -> None:
        super().__init__()
        out = 4 * width
        self.reduce = nn.Sequential(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        middle = nn.Conv2d(width, width, 3, stride, dilation, dilation, bias=False)
        self.middle = nn.Sequential(middle, nn.BatchNorm2d(width), nn.ReLU())
        self.expand = nn.Sequential(nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.expand(self.middle(self.reduce(x))) + self.shortcut(x))


class ResNet50(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        layers: list[nn.Module] = []
        channels = 64
        for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for n in range(blocks):
                layers.append(Bottleneck(channels, width, stride if n == 0 else 1))
                channels = 4 * width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(self.stem(x))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def _conv_bn_relu6(channels: int, out: int, kernel: int, stride: int, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), nn.ReLU6())


class InvertedResidual(nn.Module):
    """Expand by 1 x 1, depthwise 3 x 3, project by 1 x 1 without an activation."""

    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels * expansion
        layers: list[nn.Module] = [_conv_bn_relu6(channels, hidden, 1, 1)] if expansion != 1 else []
        layers += [_conv_bn_relu6(hidden, hidden, 3, stride, hidden), nn.Conv2d(hidden, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV2(nn.Module):
    _STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv_bn_relu6(3, 32, 3, 2)]
        channels = 32
        for expansion, out, blocks, stride in self._STAGES:
            for n in range(blocks):
                layers.append(InvertedResidual(channels, out, stride if n == 0 else 1, expansion))
                channels = out
        layers.append(_conv_bn_relu6(channels, 1280, 1, 1))
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.body(x), 1), 1))


class Basic3D(nn.Module):
    """Two 3 x 3 x 3 convolutions around a shortcut."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv3d(channels, out, 3, stride, 1, bias=False),
            nn.BatchNorm3d(out),
            nn.ReLU(),
            nn.Conv3d(out, out, 3, 1, 1, bias=False),
            nn.BatchNorm3d(out),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv3d(channels, out, 1, stride, bias=False), nn.BatchNorm3d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.layers(x) + self.shortcut(x))


class ResNet3D18(nn.Module):
    def __init__(self, classes: int = 400) -> None:
        super().__init__()
        stem = nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
        self.stem = nn.Sequential(stem, nn.BatchNorm3d(64), nn.ReLU())
        layers: list[nn.Module] = []
        channels = 64
        for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            layers += [Basic3D(channels, out, stride), Basic3D(out, out, 1)]
            channels = out
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(512, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(F.adaptive_avg_pool3d(self.body(self.stem(x)), 1), 1))


class DCGAN(nn.Module):
    """The generator: a code of 100 numbers to an image of 64 x 64."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 100
        for out, stride, padding in ((512, 1, 0), (256, 2, 1), (128, 2, 1), (64, 2, 1)):
            layers += [nn.ConvTranspose2d(channels, out, 4, stride, padding, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
            channels = out
        self.layers = nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.layers(z)
