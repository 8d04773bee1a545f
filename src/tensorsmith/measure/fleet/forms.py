"""What the messages between a tuner and its nodes say: JSON, so that nothing that comes from a node can do anything.

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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorsmith.errors import InternalError
from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.contest import NextRound, Slots, Turns
from tensorsmith.measure.job import Job, Rounds
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.wire import Message
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.sketch.sketch import Candidate

Array = np.ndarray[Any, np.dtype[Any]]


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


def trial_of_form(form: Message, candidate: Candidate, emulated: bool) -> Trial:
    names = {f.name for f in dataclasses.fields(Trial)} - {"candidate", "status", "emulated"}
    facts = {name: value for name, value in form.items() if name in names}
    return Trial(candidate, Status(form["status"]), emulated=emulated, **facts)


def rounds_of_form(form: Mapping[str, Sequence[float]]) -> Rounds:
    return {condition: list(form.get(condition.value, ())) for condition in Condition}


def limits_of_form(form: Mapping[str, Any]) -> Limits:
    return Limits(**form)


def turns_to_form(turns: Turns) -> Message:
    """How long a contest goes on. Who has a turn in a round is said by a function of the package, which the node has too."""
    function: Any = turns.next_round
    options: dict[str, Any] = {}
    if isinstance(function, functools.partial):
        function, options = function.func, function.keywords
    place = f"{function.__module__}:{function.__qualname__}"
    if "<" in place or not place.startswith("tensorsmith."):
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


def _function(place: str, options: Mapping[str, Any]) -> NextRound:
    """A function of this package."""
    module, _, name = place.partition(":")
    if not module.startswith("tensorsmith."):
        raise InternalError(f"{place} is no function of this package")
    found: Callable[..., Slots] = getattr(importlib.import_module(module), name)
    return functools.partial(found, **options)
