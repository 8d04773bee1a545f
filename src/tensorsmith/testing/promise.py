"""How a suite says what is wrong, and what the suites have in common."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tensorsmith.lang.define import compute, maximum, placeholder, reduce_axis, workload
from tensorsmith.lang.define import sum as sum_of
from tensorsmith.lang.workload import Workload
from tensorsmith.space.sketch.sketch import Candidate

T = TypeVar("T")

_PATIENCE = 120.0  # seconds until a call is taken for one that never comes back


class BrokenPromise(AssertionError):
    """A plug-in does not keep what its protocol promises."""


def demand(kept: bool, promise: str, instead: str) -> None:
    """Raises `BrokenPromise` unless a promise was kept; `instead`: what happened."""
    if not kept:
        raise BrokenPromise(f"{promise}: {instead}")


def calling(promise: str, call: Callable[..., T], *given: Any, **options: Any) -> T:
    """What a call gives; whatever it raises breaks a promise."""
    try:
        return call(*given, **options)
    except BrokenPromise:
        raise
    except Exception as problem:
        raise BrokenPromise(f"{promise}: it raised {problem!r}") from problem


def returning(promise: str, call: Callable[..., T], *given: Any) -> T:
    """The same for a call that may never come back."""
    found: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(calling(promise, call, *given))
        except BaseException as problem:
            raised.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    if raised:
        raise raised[0]
    demand(bool(found), promise, f"it did not come back within {_PATIENCE:.0f} s")
    return found[0]


def text(candidate: Candidate) -> str:
    """Equal for equal candidates."""
    return json.dumps(candidate.to_json(), sort_keys=True, default=int)


def again(candidate: Candidate) -> Candidate:
    """The candidate as it comes out of a record file: equal, and another object."""
    form: Any = json.loads(text(candidate))
    return Candidate.from_json(candidate.sketch.workload, form)


def matmul(n: int = 17, m: int = 24, k: int = 13) -> Workload:
    """relu(a @ b): a reduction with reuse, an elementwise reader, and sizes that nothing divides."""
    a, b = placeholder((n, k), name="a"), placeholder((k, m), name="b")
    axis = reduce_axis(k, name="k")
    product = compute((n, m), lambda i, j: sum_of(a[i, axis] * b[axis, j], axis=axis), name="product")
    return workload([a, b, compute((n, m), lambda i, j: maximum(product[i, j], 0.0), name="result")])


def tiny() -> Workload:
    """Two elements: a handful of programs."""
    a = placeholder((2,), name="a")
    return workload([a, compute((2,), lambda i: a[i] + 1.0, name="result")])
