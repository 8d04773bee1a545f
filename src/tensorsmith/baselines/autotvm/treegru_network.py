"""The network of `treegru.py`, on PyTorch: loops are embedded, and encoded from the innermost ones outwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Trees:
    """The loops of many programs: their features, and who is in whom."""

    values: Array  # [loops, features]
    program: Array  # by loop: the number of its program
    programs: int
    parent: Array  # by loop: the number of the loop around it, -1 without; always of an earlier one

    @property
    def levels(self) -> list[Array]:
        """The loops by how many are around them, the deepest first."""
        depth = np.zeros(len(self.parent), np.int64)
        above = self.parent.copy()
        while (above >= 0).any():
            depth += above >= 0
            above = np.where(above >= 0, self.parent[np.maximum(above, 0)], -1)
        return [np.flatnonzero(depth == d) for d in range(int(depth.max(initial=0)), -1, -1)]


class Network(torch.nn.Module):
    """x = embed(loop); h = GRU(x, sum of the h of the loops in it); score = sum over loops and slots of softmax(slots h) * read h.

    Slots and the linear layer that reads them are the paper's: h is scattered into slots by a softmax, slots are summed over the
    loops, and read by a linear layer. Being linear, it may as well read every loop before the sum, which needs far less memory.
    """

    def __init__(self, features: int, embedding: int, hidden: int, slots: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embed = torch.nn.Sequential(
                torch.nn.Linear(features, embedding), torch.nn.ReLU(), torch.nn.Linear(embedding, embedding), torch.nn.ReLU()
            )
            self.cell = torch.nn.GRUCell(embedding, hidden)
            self.slots = torch.nn.Linear(hidden, slots)
            self.read = torch.nn.Linear(hidden, slots, bias=False)
        self.double()  # scores of a program are the same to more digits, whatever it is asked about with

    def forward(self, trees: Trees) -> torch.Tensor:
        """The score of each program."""
        embedded = self.embed(torch.from_numpy(np.ascontiguousarray(trees.values, np.float64)))
        hidden = self.cell.hidden_size
        inner = torch.zeros(len(embedded), hidden, dtype=torch.float64)  # by loop: the sum of what is in it
        scores = torch.zeros(trees.programs, dtype=torch.float64)
        for level in trees.levels:
            at = torch.from_numpy(level)
            encoded = self.cell(embedded[at], inner[at])
            inside = np.flatnonzero(trees.parent[level] >= 0)
            inner = inner.index_add(0, torch.from_numpy(trees.parent[level][inside]), encoded[torch.from_numpy(inside)])
            worth = (torch.softmax(self.slots(encoded), dim=1) * self.read(encoded)).sum(dim=1)
            scores = scores.index_add(0, torch.from_numpy(trees.program[level]), worth)
        return scores
