"""What the messages between a tuner and its nodes say: JSON. What a node answers is read by `answers`, field by field.

    hello     version, target, limits             -> what the node is, or why it cannot do it
    setup     a workload, how to measure it, its right outputs as bytes
    measure   a lease: candidates of a workload   -> their trials, and the time of the calibration kernel
    compare   a contest: candidates, turns        -> their trials and rounds
    forget    a workload

Times are durations only: the clocks of two machines have nothing to do with each other.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorsmith.errors import InternalError, UserError
from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import NextRound, Slots, Turns
from tensorsmith.measure.job import Job
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.wire import Message

Array = np.ndarray[Any, np.dtype[Any]]

#: what may decide who has a turn in a contest on a node, and the options of each, which are whole numbers
_NEXT_ROUND = {"tensorsmith.measure.contest:evenly": "most", "tensorsmith.tuning.finals.race:next_round": "holder"}


def arrays_to_form(arrays: Mapping[str, Array]) -> dict[str, Message]:
    """Arrays as text: their bytes in base64."""
    return {
        name: {"dtype": a.dtype.str, "shape": list(a.shape), "bytes": base64.b64encode(a.tobytes()).decode()}
        for name, a in arrays.items()
    }


def arrays_of_form(form: Mapping[str, Message]) -> dict[str, Array]:
    return {name: np.frombuffer(base64.b64decode(a["bytes"]), np.dtype(a["dtype"])).reshape(a["shape"]) for name, a in form.items()}


def job_to_form(job: Job) -> Message:
    decisions = {name: int(value) for name, value in job.candidate.decisions.items()}
    sketch = json.dumps(job.candidate.sketch.to_json(), sort_keys=True)
    return {"id": job.number, "bench": job.subject.number, "sketch": sketch, "decisions": decisions}


def trial_to_form(job: Job) -> Message:
    """The trial of a job that is finished."""
    trial = job.trial
    if trial is None:
        raise InternalError("a job without a trial")
    facts = {f.name: getattr(trial, f.name) for f in dataclasses.fields(trial) if f.name not in ("candidate", "status")}
    rounds = {condition.value: times for condition, times in job.rounds.items() if times}
    return {"id": job.number, "status": trial.status.value, "cut": job.cut, "rounds": rounds, **facts}


def limits_of_form(form: Mapping[str, Any]) -> Limits:
    return Limits(**form)


def turns_to_form(turns: Turns) -> Message:
    """How long a contest goes on. Who has a turn in a round is said by a function of the package, which the node has too."""
    function: Any = turns.next_round
    options: dict[str, Any] = {}
    if isinstance(function, functools.partial):
        function, options = function.func, function.keywords
    place = f"{function.__module__}:{function.__qualname__}"
    if place not in _NEXT_ROUND:
        raise InternalError(f"{place} cannot be called on another machine")
    return {
        "next_round": place,
        "options": options,
        "conditions": [condition.value for condition in turns.conditions],
        "seconds": turns.seconds,
        "least": turns.least,
    }


def turns_of_form(form: Message) -> Turns:
    conditions = tuple(Condition(word) for word in form["conditions"])
    return Turns(_function(form["next_round"], form["options"]), conditions, form["seconds"], form["least"])


def _function(place: object, options: Mapping[str, Any]) -> NextRound:
    """One of the functions above. The module is imported now: what measures does not depend on what tunes."""
    if not isinstance(place, str) or place not in _NEXT_ROUND:
        raise UserError(f"{place!r:.80} does not say who has a turn; known are {', '.join(_NEXT_ROUND)}")
    if set(options) != {_NEXT_ROUND[place]} or not all(type(value) is int for value in options.values()):
        raise UserError(f"{place} takes a whole number, {_NEXT_ROUND[place]}; {options!r:.80} given")
    module, _, name = place.partition(":")
    found: Callable[..., Slots] = getattr(importlib.import_module(module), name)
    return functools.partial(found, **options)
