"""The model that comes with the package: what programs of many workloads took on machines like this one (`docs/no-trial.md`).

One file for each schema of features, `cpu.model`, made by `benchmarks/collect.py` and `benchmarks/train.py`. A file that was
learned on other features than this version computes is not used, and that is said once; whoever asked for it does without.
"""

from __future__ import annotations

import functools
import logging
import warnings
from pathlib import Path

from tensorsmith.errors import UserError
from tensorsmith.learn.features.schema import Schema
from tensorsmith.learn.models.ensemble import EnsembleModel

log = logging.getLogger(__name__)


def path_of(schema: Schema) -> Path:
    """Where the model for features of a schema is, if there is one."""
    return Path(__file__).with_name(f"{schema.name}.model")


@functools.cache
def pretrained(schema: Schema) -> EnsembleModel | None:
    """The package's model for features of a schema; None where there is none, or none that fits. It is read once."""
    return read_model(path_of(schema), schema)


def read_model(path: Path, schema: Schema) -> EnsembleModel | None:
    """The model in a file, or None, with a warning if the file is there and cannot be used."""
    if not path.exists():
        log.info("there is no pre-trained model for the features of %s", schema.name)
        return None
    try:
        return EnsembleModel.load(path, schema)
    except UserError as problem:
        warnings.warn(f"the pre-trained model is not used, and what it would tell is not known: {problem}", stacklevel=2)
        log.warning("the pre-trained model is not used: %s", problem)
        return None
