"""Layers of networks that are in no table of ours: facts from their papers, as (operator, shape behind the batch).

    C1D, C2D, C3D        spatial..., channels in, channels out, kernel, stride, padding
    GRP, DIL             the same; then dilation (and groups)
    DEP, DepLayer        height, width, channels, kernel, stride, padding; DepLayer has a bias and a hard-swish behind
    T2D                  height, width, channels in, channels out, kernel, stride, padding
    ConvLayer, Residual  height, width, channels in, channels out, kernel, stride, padding; with bias, batch norm and ReLU; with
                         bias, a second image and ReLU
    Dense                rows, channels in, channels out; with bias and GELU
    TBS, Attention       length, heads, dim; scores with their softmax; the whole of it
    softmax, layer_norm  rows, columns

`drawn.py` draws from these, and from what is near them.
"""

from __future__ import annotations

Layer = tuple[str, tuple[int, ...]]

NETWORKS: dict[str, tuple[Layer, ...]] = {
    "RegNetX-400MF": (
        ("GRP", (112, 112, 32, 32, 3, 2, 1, 1, 2)),
        ("GRP", (28, 28, 64, 64, 3, 1, 1, 1, 4)),
        ("ConvLayer", (14, 14, 160, 160, 1, 1, 0)),
        ("GRP", (7, 7, 400, 400, 3, 1, 1, 1, 25)),
        ("C2D", (14, 14, 160, 400, 1, 2, 0)),
    ),
    "RegNetY-1.6GF": (
        ("GRP", (28, 28, 120, 120, 3, 1, 1, 1, 5)),
        ("ConvLayer", (14, 14, 336, 336, 1, 1, 0)),
        ("Dense", (1, 336, 84)),
        ("GRP", (14, 14, 888, 888, 3, 2, 1, 1, 37)),
        ("Residual", (7, 7, 888, 888, 1, 1, 0)),
    ),
    "ResNeXt-50 32x4d": (
        ("GRP", (56, 56, 128, 128, 3, 1, 1, 1, 32)),
        ("GRP", (28, 28, 256, 256, 3, 1, 1, 1, 32)),
        ("Residual", (14, 14, 512, 1024, 1, 1, 0)),
        ("GRP", (14, 14, 1024, 1024, 3, 2, 1, 1, 32)),
    ),
    "GhostNet": (
        ("DEP", (112, 112, 8, 3, 1, 1)),
        ("C2D", (56, 56, 24, 36, 1, 1, 0)),
        ("DEP", (28, 28, 60, 3, 1, 1)),
        ("C2D", (14, 14, 80, 100, 1, 1, 0)),
        ("DepLayer", (14, 14, 480, 5, 2, 2)),
        ("C2D", (7, 7, 960, 80, 1, 1, 0)),
    ),
    "EfficientNetV2-S": (
        ("ConvLayer", (150, 150, 24, 24, 3, 1, 1)),
        ("ConvLayer", (75, 75, 48, 192, 3, 1, 1)),
        ("DEP", (38, 38, 256, 3, 2, 1)),
        ("C2D", (19, 19, 768, 160, 1, 1, 0)),
        ("DEP", (10, 10, 1536, 3, 1, 1)),
        ("Residual", (10, 10, 1536, 256, 1, 1, 0)),
    ),
    "MobileNet-V3 large": (
        ("DepLayer", (112, 112, 16, 3, 1, 1)),
        ("DepLayer", (56, 56, 72, 5, 2, 2)),
        ("C2D", (28, 28, 120, 40, 1, 1, 0)),
        ("DepLayer", (14, 14, 200, 3, 1, 1)),
        ("DepLayer", (14, 14, 672, 5, 2, 2)),
        ("Dense", (1, 960, 1280)),
    ),
    "MobileViT-S": (
        ("C2D", (32, 32, 96, 144, 1, 1, 0)),
        ("Attention", (256, 4, 36)),
        ("Dense", (1024, 144, 288)),
        ("layer_norm", (256, 192)),
        ("Attention", (64, 4, 48)),
        ("ConvLayer", (8, 8, 320, 160, 3, 1, 1)),
    ),
    "SqueezeNet 1.1": (
        ("ConvLayer", (55, 55, 64, 16, 1, 1, 0)),
        ("ConvLayer", (55, 55, 16, 64, 3, 1, 1)),
        ("ConvLayer", (27, 27, 32, 128, 3, 1, 1)),
        ("ConvLayer", (13, 13, 64, 256, 3, 1, 1)),
        ("C2D", (13, 13, 512, 1000, 1, 1, 0)),
    ),
    "ShuffleNet-V2 1x": (
        ("DEP", (56, 56, 24, 3, 2, 1)),
        ("ConvLayer", (28, 28, 58, 58, 1, 1, 0)),
        ("DEP", (28, 28, 58, 3, 1, 1)),
        ("ConvLayer", (14, 14, 116, 116, 1, 1, 0)),
        ("ConvLayer", (7, 7, 464, 1024, 1, 1, 0)),
    ),
    "DenseNet-121": (
        ("ConvLayer", (56, 56, 96, 128, 1, 1, 0)),
        ("C2D", (56, 56, 128, 32, 3, 1, 1)),
        ("ConvLayer", (28, 28, 352, 128, 1, 1, 0)),
        ("C2D", (14, 14, 128, 32, 3, 1, 1)),
        ("C2D", (14, 14, 1024, 512, 1, 1, 0)),
    ),
    "Inception-v3": (
        ("ConvLayer", (149, 149, 32, 32, 3, 1, 0)),
        ("ConvLayer", (35, 35, 48, 64, 5, 1, 2)),
        ("ConvLayer", (35, 35, 96, 96, 3, 2, 0)),
        ("ConvLayer", (17, 17, 768, 192, 1, 1, 0)),
        ("ConvLayer", (8, 8, 448, 384, 3, 1, 1)),
    ),
    "VGG-16": (
        ("ConvLayer", (112, 112, 64, 128, 3, 1, 1)),
        ("ConvLayer", (28, 28, 256, 512, 3, 1, 1)),
        ("ConvLayer", (14, 14, 512, 512, 3, 1, 1)),
    ),
    "RepVGG-A0": (
        ("ConvLayer", (112, 112, 48, 48, 3, 2, 1)),
        ("ConvLayer", (28, 28, 96, 96, 3, 1, 1)),
        ("ConvLayer", (14, 14, 192, 192, 3, 1, 1)),
    ),
    "Darknet-53 (YOLOv3)": (
        ("ConvLayer", (104, 104, 64, 128, 3, 2, 1)),
        ("ConvLayer", (52, 52, 128, 256, 3, 1, 1)),
        ("C2D", (26, 26, 512, 255, 1, 1, 0)),
        ("Residual", (13, 13, 512, 1024, 3, 1, 1)),
    ),
    "YOLOv8n": (
        ("C2D", (80, 80, 32, 64, 3, 2, 1)),
        ("Residual", (40, 40, 32, 32, 3, 1, 1)),
        ("C2D", (20, 20, 384, 256, 1, 1, 0)),
        ("C2D", (80, 80, 64, 80, 3, 1, 1)),
    ),
    "HRNet-W18": (
        ("Residual", (56, 56, 18, 18, 3, 1, 1)),
        ("Residual", (28, 28, 36, 36, 3, 1, 1)),
        ("Residual", (14, 14, 72, 72, 3, 1, 1)),
        ("C2D", (56, 56, 18, 36, 3, 2, 1)),
    ),
    "ConvNeXt-V2-A": (
        ("DEP", (56, 56, 40, 7, 1, 3)),
        ("DEP", (14, 14, 160, 7, 1, 3)),
        ("Dense", (3136, 40, 160)),
        ("Dense", (196, 160, 640)),
        ("layer_norm", (784, 80)),
    ),
    "ESPCN": (("C2D", (180, 180, 1, 64, 5, 1, 2)), ("C2D", (180, 180, 64, 32, 3, 1, 1)), ("C2D", (180, 180, 32, 9, 3, 1, 1))),
    "CycleGAN generator": (
        ("Residual", (64, 64, 256, 256, 3, 1, 1)),
        ("T2D", (64, 64, 256, 128, 3, 2, 1)),
        ("T2D", (128, 128, 128, 64, 3, 2, 1)),
    ),
    "FCN upsampling": (("T2D", (16, 16, 21, 21, 4, 2, 1)), ("T2D", (34, 34, 21, 21, 16, 8, 4))),
    "ESPNet": (
        ("DIL", (64, 64, 64, 12, 3, 1, 2, 2)),
        ("DIL", (64, 64, 64, 12, 3, 1, 8, 8)),
        ("DIL", (32, 32, 128, 25, 3, 1, 4, 4)),
    ),
    "Conformer-S": (
        ("Dense", (250, 144, 576)),
        ("Attention", (250, 4, 36)),
        ("C1D", (250, 144, 288, 1, 1, 0)),
        ("layer_norm", (250, 144)),
        ("C2D", (499, 39, 144, 144, 3, 2, 0)),
    ),
    "Wav2Vec2-base": (
        ("C1D", (3199, 512, 512, 3, 2, 0)),
        ("C1D", (399, 512, 512, 2, 2, 0)),
        ("Dense", (199, 768, 3072)),
        ("Attention", (199, 12, 64)),
        ("layer_norm", (199, 512)),
    ),
    "TCN": (("C1D", (400, 150, 150, 7, 1, 3)), ("C1D", (1000, 30, 30, 5, 1, 2))),
    "HiFi-GAN": (("C1D", (512, 256, 256, 11, 1, 5)), ("C1D", (4096, 64, 64, 7, 1, 3)), ("C1D", (32, 80, 512, 7, 1, 3))),
    "TextCNN": (("C1D", (56, 300, 100, 5, 1, 0)), ("C1D", (56, 300, 100, 3, 1, 0))),
    "DeBERTa-v3-small": (("Dense", (128, 768, 3072)), ("TBS", (96, 12, 64)), ("layer_norm", (96, 768)), ("GMM", (96, 512, 64))),
    "ELECTRA-small": (("Dense", (128, 256, 1024)), ("Attention", (128, 4, 64)), ("layer_norm", (128, 256))),
    "BART-large": (("Dense", (64, 1024, 4096)), ("Attention", (64, 16, 64)), ("softmax", (1024, 64))),
    "DETR": (
        ("Attention", (850, 8, 32)),
        ("Dense", (850, 256, 2048)),
        ("Attention", (100, 8, 32)),
        ("Dense", (100, 256, 92)),
        ("layer_norm", (850, 256)),
    ),
    "SAM prompt decoder": (("Attention", (7, 8, 32)), ("T2D", (64, 64, 256, 64, 2, 2, 0)), ("Dense", (4096, 256, 128))),
    "MLP-Mixer-S/16": (("Dense", (512, 196, 256)), ("Dense", (196, 512, 2048)), ("layer_norm", (196, 512))),
    "PoolFormer-S12": (("Dense", (3136, 64, 256)), ("Dense", (196, 320, 1280)), ("C2D", (56, 56, 64, 128, 3, 2, 1))),
    "X3D-S": (
        ("C3D", (13, 40, 40, 54, 24, 1, 1, 0)),
        ("C3D", (13, 20, 20, 48, 108, 1, 1, 0)),
        ("C3D", (13, 10, 10, 96, 216, 1, 1, 0)),
    ),
    "C3D (Sports-1M)": (("C3D", (8, 28, 28, 64, 128, 3, 1, 1)), ("C3D", (2, 7, 7, 512, 512, 3, 1, 1))),
    "3D U-Net": (("C3D", (32, 32, 32, 32, 32, 3, 1, 1)), ("C3D", (8, 8, 8, 128, 256, 3, 1, 1))),
    "PointNet": (("C1D", (1024, 64, 128, 1, 1, 0)), ("C1D", (1024, 128, 1024, 1, 1, 0)), ("Dense", (1, 1024, 512))),
    "DLRM": (("Dense", (128, 13, 512)), ("Dense", (128, 479, 1024)), ("GMM", (27, 27, 64))),
    "Tacotron 2": (("C1D", (120, 512, 512, 5, 1, 2)), ("Dense", (1, 256, 256)), ("softmax", (1, 120))),
}
