"""Calls side by side: several workers, each with one thread, that share code and weights. For requests per second, not for latency.

One call on all threads ends sooner; several calls on a thread each waste nothing on waiting for one another.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from tensorsmith.errors import UserError, whole_number
from tensorsmith.runtime.pool import with_threads
from tensorsmith.show.line import line, many
from tensorsmith.targets.host import thread_count

Request = tuple["Future[Any]", Any]


class Stream:
    """Serves calls of an executable; made by `exe.stream(workers)`. Any thread may submit.

    with exe.stream() as stream:
        futures = [stream.submit(x) for x in requests]
        results = [f.result() for f in futures]
    """

    def __init__(self, name: str, call: Callable[..., Any], workers: int | None = None) -> None:
        """`workers`: as many as there are CPUs for this process, if it is not said."""
        count = thread_count() if workers is None else whole_number(workers)
        if count is None or count < 1:
            raise UserError(f"a stream has {workers!r} workers; give a whole number, at least 1")
        self.name, self.workers = name, count
        self._call = call
        self._waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()  # nothing is submitted behind the end
        self._threads = [threading.Thread(target=self._work, name=f"tensorsmith-stream-{n}", daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, *args: Any, **named: Any) -> Future[Any]:
        """A call with these inputs, as soon as a worker is free: the future of what it gives, or raises."""
        return self._put((args, named))

    def map(self, inputs: Iterable[Any]) -> Iterator[Any]:
        """The results for many inputs, in their order; each is one array, or a tuple of several."""
        futures = [self.submit(*(x if isinstance(x, tuple) else (x,))) for x in inputs]
        return (future.result() for future in futures)

    def close(self) -> None:
        """Serves what was submitted, then ends the workers."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return line(self, f"{self.name}: {many(self.workers, 'worker')}{', closed' if self._closed else ''}")

    def _put(self, request: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise UserError(f"the stream of {self.name} is closed; make another one")
            self._waiting.put((future, request))
        return future

    def _work(self) -> None:
        with with_threads(1):
            taken = self._waiting.get()
            while taken is not None:
                following = self._serve(taken)
                del taken  # a worker that waits holds nobody's arrays
                taken = following[0] if following else self._waiting.get()

    def _serve(self, taken: Request) -> tuple[()] | tuple[Request | None]:
        """Serves a request, and perhaps others that wait; gives what it took behind them and did not serve."""
        future, (args, named) = taken
        if future.set_running_or_notify_cancel():
            answer(future, lambda: self._call(*args, **named))
        return ()


def answer(future: Future[Any], call: Callable[[], Any]) -> None:
    """Gives a future what a call gives or raises."""
    try:
        result = call()
    except BaseException as problem:  # whatever it is, who waits has to know
        future.set_exception(problem)
    else:
        future.set_result(result)
