"""The cost models there are, by name.

trees        boosted trees that correct the prior (`trees.py`)
ensemble     several forests of them, which say how sure they are (`ensemble.py`)
ansor        Ansor's trees on Ansor's own features (`ansor.py`)
mlp          a small neural network that corrects the prior (`mlp.py`)
prior        the analytic prior alone: learns nothing (`prior.py`)
random       a random order: what a search is without a model (`random.py`)

Installed packages bring others; `tensorsmith.baselines` has "halide" and "treegru".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tensorsmith.errors import Parameter, UserError
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.features.sets import schema_for
from tensorsmith.learn.models.file import kind_of
from tensorsmith.learn.models.model import CostModel
from tensorsmith.plugins import Registry


class ModelClass(Protocol):
    """The class of a cost model: called without arguments, it gives one that has learned nothing yet."""

    def __call__(self) -> CostModel: ...

    def load(self, path: str | Path, schema: Schema) -> CostModel: ...


_PLACE = "tensorsmith.learn.models"

MODELS: Registry[ModelClass] = Registry(
    "cost model",
    {
        "trees": f"{_PLACE}.trees:TreeModel",
        "ensemble": f"{_PLACE}.ensemble:EnsembleModel",
        "ansor": f"{_PLACE}.ansor:AnsorModel",
        "mlp": f"{_PLACE}.mlp:MlpModel",
        "prior": f"{_PLACE}.prior:PriorModel",
        "random": f"{_PLACE}.random:RandomModel",
    },
    group="tensorsmith.models",
)

_METHODS = ("predict", "update", "ready", "fork", "save", "load")

#: what stands for a cost model: a name, "module:Name", the file of a saved one, a class, a function, or a model
GivenModel = str | Path | CostModel | Callable[[], CostModel]


def register_model(name: str, model: ModelClass) -> None:
    """Gives the class of a cost model a name; its `kind` has to be that name, so that its files find it."""
    kind = getattr(model, "kind", name)
    if kind != name:
        raise UserError(f"the kind of {model!r} is {kind!r}; a model that is called {name!r} has to have that as its kind")
    MODELS.add(name, model)


def as_model(given: GivenModel, schema: Schema) -> CostModel:
    """A cost model given by its name or place, as a saved file, as a class, or as itself; for features of that schema."""
    if isinstance(given, Path) or (isinstance(given, str) and given not in MODELS and Path(given).is_file()):
        return load_model(given, schema)
    found: Any = MODELS.get(given) if isinstance(given, str) else given
    if isinstance(found, type) or (callable(found) and not hasattr(found, "predict")):
        found = found()
    lacking = [word for word in _METHODS if not callable(getattr(found, word, None))]
    if lacking:
        raise UserError(
            Parameter("model"),
            f" is {given!r}, which has no {', no '.join(lacking)}; give one of {', '.join(MODELS.names())}, the file of a "
            "saved model, or a cost model of your own (`tensorsmith.learn.models.model`)",
        )
    model: CostModel = found
    return model


def load_model(path: str | Path, schema: Schema) -> CostModel:
    """The model that was saved, of whatever kind; `schema` is that of the backend's features."""
    found = MODELS.get(kind_of(path))
    return found.load(path, schema_for(found, schema))
