"""AutoTVM's TreeGRU: a network that encodes the tree of a program's loops, from context features of each loop (needs PyTorch).

    loop  ->  embedding of 128  ->  GRU over the loops in it, 128  ->  32 slots, summed over the loops  ->  a score

(spec: baselines.md, section 1.5; the authors never released theirs.) It learns an order, by the paper's loss over pairs of
programs. What was loaded or forked is kept: every update begins with those weights. It sees loops (`features/loops.py`), not the
backend's features, and makes nothing of the prior.
"""

from __future__ import annotations

import base64
import contextlib
import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorsmith.errors import UserError, install
from tensorsmith.learn.features.loops import SCHEMA
from tensorsmith.learn.features.rows import FeatureRows
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.file import read, write
from tensorsmith.learn.models.losses import Loss
from tensorsmith.learn.models.model import Array, Samples

if TYPE_CHECKING:
    from tensorsmith.baselines.autotvm.treegru_network import Network, Trees


@dataclass(frozen=True)
class TreeGruSettings:
    """The sizes are the paper's; slots, epochs and rate are not given there (spec: [I])."""

    embedding: int = 128
    hidden: int = 128
    slots: int = 32
    epochs: int = 100  # of an update
    rate: float = 1e-3  # Adam's
    warm: int = 12  # programs that ran, from which on something can be learned


class TreeGruModel:
    """A network on loops; see the module's text."""

    kind = "treegru"
    features = "loops"

    def __init__(self, settings: TreeGruSettings = TreeGruSettings(), seed: int = 0) -> None:
        _library()
        self.settings, self.seed = settings, seed
        self.network: Network | None = None
        self.kept: Network | None = None  # what it began with
        self.middle: Array = np.zeros(0)  # what features are scaled by
        self.spread: Array = np.ones(0)

    def update(self, samples: Samples) -> None:
        if sum(t > 0 for t in samples.throughput) < self.settings.warm:
            return
        torch = _library()
        rows = np.concatenate(samples.rows)
        pack = np.repeat(np.arange(len(samples)), [len(r) for r in samples.rows])
        network = self._fresh(rows.shape[1])
        if self.kept is None:
            spread = rows.std(axis=0)
            self.middle, self.spread = rows.mean(axis=0), np.where(spread > 1e-6, spread, 1.0)
        else:
            network.load_state_dict(self.kept.state_dict())
        trees = self._trees(rows, pack, len(samples))
        loss = Loss("pairs", pack, samples, self.seed, with_base=False)
        steps = torch.optim.Adam(network.parameters(), self.settings.rate)
        with _one_thread():
            for _ in range(self.settings.epochs):
                steps.zero_grad()
                scores = network(trees)
                slope, _ = loss.slope(scores.detach().numpy())
                scores.backward(torch.from_numpy(slope))
                steps.step()
        self.network = network

    def _fresh(self, features: int) -> Network:
        from tensorsmith.baselines.autotvm.treegru_network import Network

        s = self.settings
        return Network(features, s.embedding, s.hidden, s.slots, self.seed)

    def _trees(self, rows: Array, program: Array, programs: int) -> Trees:
        """Loops as the network takes them: those of a program one after the other, scaled, with the places of their parents."""
        from tensorsmith.baselines.autotvm.treegru_network import Trees

        order = np.argsort(program, kind="stable")
        rows, program = rows[order], program[order]
        first = np.searchsorted(program, program)
        parent = np.full(len(rows), -1)
        if rows.shape[1] == len(SCHEMA):  # of other features nothing is known about trees
            told = np.rint(np.exp2(rows[:, SCHEMA.index["parent"]].astype(np.float64)) - 1.0).astype(np.int64)
            above = first + told - 1
            parent = np.where((told > 0) & (above < np.arange(len(rows))), above, -1)
        scaled = np.clip((rows - self.middle) / self.spread, -8.0, 8.0)
        return Trees(scaled, program, programs, parent)

    def predict(self, given: FeatureRows | Array, base: Array | float = 0.0) -> Array:
        """Scores of programs: of a population's rows, or of features [programs, loops, features]."""
        if self.network is None:
            raise UserError("this model has not learned anything yet; call update() or load()")
        if isinstance(given, FeatureRows):
            trees = self._trees(given.values, given.candidate, given.candidates)
        else:
            pack = np.repeat(np.arange(len(given)), given.shape[1])
            trees = self._trees(given.reshape(-1, given.shape[-1]), pack, len(given))
        with _one_thread(), _library().no_grad():
            return np.asarray(self.network(trees).numpy(), float)

    def ready(self) -> bool:
        return self.network is not None

    def fork(self, seed: int = 0) -> TreeGruModel:
        new = TreeGruModel(self.settings, seed)
        new.kept = new.network = self.network
        new.middle, new.spread = self.middle, self.spread
        return new

    def save(self, path: str | Path, schema: Schema) -> None:
        if self.network is None:
            raise UserError("there is nothing to save: this model has not learned anything yet")
        arrays = {name: value.numpy() for name, value in self.network.state_dict().items()}
        held = io.BytesIO()
        np.savez_compressed(held, middle=self.middle, spread=self.spread, **arrays)
        text = base64.b64encode(held.getvalue()).decode()
        write(path, schema, self.kind, {"settings": asdict(self.settings), "seed": self.seed}, text)

    @staticmethod
    def load(path: str | Path, schema: Schema) -> TreeGruModel:
        head, text = read(path, schema, TreeGruModel.kind)
        torch = _library()
        try:
            model = TreeGruModel(TreeGruSettings(**head["settings"]), int(head["seed"]))
            with np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False) as arrays:
                found = {name: arrays[name] for name in arrays.files}
            model.middle, model.spread = found.pop("middle"), found.pop("spread")
            network = model._fresh(len(model.middle))
            network.load_state_dict({name: torch.from_numpy(value) for name, value in found.items()})
        except (KeyError, TypeError, ValueError, OSError, RuntimeError) as problem:
            raise UserError(f"{path} is damaged: {problem}") from problem
        model.kept = model.network = network
        return model


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """The matrices are small: threads of PyTorch would wait for each other, the longer the more else there is to do."""
    torch = _library()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _library() -> Any:
    """PyTorch, which only this model needs."""
    try:
        import torch
    except ImportError as problem:
        raise UserError(f"the cost model 'treegru' needs PyTorch: {install('torch')}") from problem
    return torch
