"""Requests that wait are served together, as one call of a larger batch."""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.runtime.arguments import in_order
from tensorsmith.runtime.stream import Request, Stream, answer

if TYPE_CHECKING:
    from tensorsmith.runtime.variants.executable import OpenExecutable


class Batching(Stream):
    """A stream whose workers take all that waits, as far as it fits the largest compiled batch; `exe.stream(workers, wait)`.

    Rows have to be independent of each other: that is tried once, on random inputs. A batch is filled up with zeros to the next
    size that is compiled, so nothing is ever compiled for a request.
    """

    def __init__(self, executable: OpenExecutable, workers: int | None, wait: float) -> None:
        if not 0 <= wait < 60:
            raise UserError(f"wait is {wait!r}; give the seconds that a request may wait for others, 0 or more")
        self._executable, self._wait = executable, wait
        self._batch = _leading_symbol(executable)
        self.sizes = sorted(v.key[0] for v in executable.variants if v.key[0] > 0)
        if not self.sizes:
            raise UserError(f"{executable.name} has no size to serve with: name some, as in shapes={{{self._batch!r}: [1, 8]}}")
        self._check_rows()
        super().__init__(executable.name, executable, workers)

    def submit(self, *args: Any, **named: Any) -> Future[Any]:
        """A call with these inputs, of any batch up to the largest compiled one: the future of what it gives for them alone."""
        executable = self._executable
        given = in_order(executable.name, tuple(a.name for a in executable.inputs), args, named) if named else args
        sizes = executable.sizes_of(given)
        if not 0 < sizes[0] <= self.sizes[-1]:
            raise UserError(f"{self._batch} is {sizes[0]}; the stream of {executable.name} takes 1 to {self.sizes[-1]}")
        return self._put((sizes[0], executable.accepted(given, sizes), time.monotonic()))

    def _serve(self, taken: Request) -> tuple[()] | tuple[Request | None]:
        group = [taken]
        behind: tuple[()] | tuple[Request | None] = ()
        rows, until = taken[1][0], taken[1][2] + self._wait
        while rows < self.sizes[-1]:
            try:
                left = until - time.monotonic()
                more = self._waiting.get(timeout=left) if left > 0 else self._waiting.get_nowait()
            except queue.Empty:
                break
            if more is None or rows + more[1][0] > self.sizes[-1]:
                behind = (more,)  # it comes next: put back, it would be behind others, or behind the end
                break
            group.append(more)
            rows += more[1][0]
        group = [one for one in group if one[0].set_running_or_notify_cancel()]
        if not group:
            return behind
        whole: Future[Any] = Future()
        answer(whole, lambda: self._together([arrays for _, (_, arrays, _) in group]))
        problem = whole.exception()
        begin = 0
        for future, (count, _, _) in group:
            if problem is not None:
                future.set_exception(problem)
            else:
                parts = tuple(np.ascontiguousarray(r[begin : begin + count]) for r in whole.result())
                future.set_result(parts[0] if len(parts) == 1 else parts)
            begin += count
        return behind

    def _together(self, requests: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
        """The outputs for the rows of several requests, one behind the other."""
        rows = sum(len(arrays[0]) for arrays in requests)
        size = next(n for n in self.sizes if n >= rows)
        inputs = []
        for arrays in zip(*requests):
            filled = [*arrays, np.zeros((size - rows, *arrays[0].shape[1:]), arrays[0].dtype)] if size > rows else list(arrays)
            inputs.append(np.concatenate(filled) if len(filled) > 1 else filled[0])
        one = self._executable.at(**{self._batch: size})
        found = one.run(dict(zip((a.name for a in self._executable.inputs), inputs)))
        return [found[o.name] for o in one.outputs]

    def _check_rows(self) -> None:
        """Raises `UserError` where a row's results depend on the rows before or behind it, or are not one row."""
        least, most = self.sizes[0], self.sizes[-1]
        one = self._executable.at(**{self._batch: least}).random_inputs()
        rows = [a[:1] for a in one]
        if any(o.shape[:1] != (n,) for n in self.sizes for o in self._executable.at(**{self._batch: n}).outputs):
            raise UserError(f"{self._executable.name} gives outputs that do not have a row for each row of the inputs")
        alone = self._together([rows])
        if most == 1:
            return
        others = [[(a[:1] + 1).astype(a.dtype) for a in one]] * (most - 1)
        for place, requests in ((0, [rows, *others]), (most - 1, [*others, rows])):
            for a, b in zip(alone, self._together(requests)):
                if not np.allclose(a[0], b[place], rtol=1e-2, atol=1e-3 * float(np.abs(a[0]).max(initial=0)), equal_nan=True):
                    raise UserError(f"{self._executable.name} computes a row of other rows, so requests cannot share a call")


def _leading_symbol(executable: OpenExecutable) -> str:
    """The symbol of the first dimension of all inputs, which is open nowhere else."""
    symbol = executable.symbols[0]
    if len(executable.symbols) != 1 or any(a.dims[:1] != (symbol,) or symbol in a.dims[1:] for a in executable.inputs):
        shown = ", ".join(map(str, executable.inputs))
        raise UserError(f"requests share calls along one open dimension, the first of every input; {executable.name} has {shown}")
    return symbol
