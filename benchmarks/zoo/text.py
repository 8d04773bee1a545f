"""Text encoders: a transformer that takes token numbers and a mask and gives the last hidden states."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class _Encoder(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)[0]


def encoder(model: Any) -> nn.Module:
    """The model with plain tensors in and out, in inference mode."""
    return _Encoder(model.eval()).eval()
