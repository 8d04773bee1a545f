"""The worker process: `python -m tensorsmith.measure.worker`, commands on standard input, replies on standard output.

    (it has started)                                        -> started
    setup    a bench: a workload and how to measure it      -> ready | failed
    forget   a bench
    build    a candidate: build it, run it once, check it   -> begun, compiled, then built | failed
    time     one that is built                              -> begun, then timed | failed
    drop     forget one

A worker dies with its parent, whatever it is doing then: a thread of it waits for the end of standard input.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.errors import InternalError, Refusal
from tensorsmith.lang.workload import Workload
from tensorsmith.measure import wire
from tensorsmith.measure.bench import Bench
from tensorsmith.measure.conditions import Condition
from tensorsmith.measure.retake import Retakes
from tensorsmith.measure.timing import Plan
from tensorsmith.rewrites.formulations import formulation_named
from tensorsmith.runtime.pool import with_threads
from tensorsmith.search.trial import Status
from tensorsmith.targets.target import Target


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    replies = os.dup(1)
    os.dup2(2, 1)  # whatever prints must not garble the replies
    watch = watch_parent(Path(sys.argv[1]), int(sys.argv[2]))
    service = Service(replies)
    while (message := wire.read(0)) is not None:
        service.obey(message)
    watch.join()  # it tidies up, and ends the process


class Service:
    """Obeys the measurer's commands; `crew.Worker` is this process as the measurer sees it."""

    def __init__(self, replies: int) -> None:
        self._replies = replies
        self._benches: dict[int, Bench] = {}
        self._retakes = Retakes()
        lower_priority_for_memory()
        gc.collect()
        gc.freeze()  # what the imports made stays: no need to look at it again
        self._say("started", None, rss=resident_bytes())

    def obey(self, message: wire.Message) -> None:
        number, do = message.get("id"), message["do"]
        self._say("begun", number)
        try:
            if do == "setup":
                self._setup(message)
            elif do == "forget":
                self._forget(message)
            else:
                bench = self._benches[message["bench"]]
                {"build": self._build, "time": self._time, "drop": self._drop}[do](bench, message)
        except MemoryError:
            self._fail(message, Status.OUT_OF_MEMORY, "not enough memory")
        except Refusal as problem:
            self._fail(message, Status.REFUSED, problem.cause)
        except Exception as problem:  # a bug of ours must not end the run: it is a result like any other
            first = (str(problem).strip().splitlines() or [""])[0]
            self._fail(message, Status.BUILD_FAILED, f"{type(problem).__name__}: {first}"[:300])

    def _setup(self, m: wire.Message) -> None:
        limit_memory(None)  # that of the bench before
        reference = {name: np.load(path, allow_pickle=False) for name, path in m["reference"].items()}
        with with_threads(m["threads"]):  # the pool's threads exist before memory is limited
            pass
        if m["backend"]:
            importlib.import_module(m["backend"])  # a kind of target that is not the package's own
        formulation = formulation_named(Workload.from_json(m["workload"]), m["formulation"])
        self._benches[m["bench"]] = Bench(
            formulation.workload,
            Target.from_json(m["target"]),
            seed=m["seed"],
            threads=m["threads"],
            reference=reference if m["check"] else None,
            cache=m["cache"],
            hook=load_hook(m["hook"]) if m["hook"] else None,
            formulation=formulation,
        )
        limit_memory(m["memory"])
        self._say("ready", None, rss=resident_bytes())

    def _forget(self, m: wire.Message) -> None:
        self._benches.pop(m["bench"], None)
        gc.collect()  # a bench is a ring of objects

    def _build(self, bench: Bench, m: wire.Message) -> None:
        number, start = m["id"], time.perf_counter()
        bench.build(number, m["sketch"], m["decisions"])
        built = time.perf_counter()
        self._say("compiled", number, build=built - start)
        problem = bench.check(number)
        if problem is not None:
            return self._fail(m, Status.WRONG_ANSWER, problem)
        self._say("built", number, check=time.perf_counter() - built)

    def _time(self, bench: Bench, m: wire.Message) -> None:
        start = time.perf_counter()
        plan, condition = Plan.from_json(m["plan"]), Condition(m["condition"])
        rounds, problem = self._retakes.undisturbed(lambda: bench.time(m["id"], plan, condition))
        if problem is not None:
            return self._fail(m, Status.WRONG_ANSWER, f"{problem}, and right when run before")
        run, note = time.perf_counter() - start, bench.note(m["id"])
        if not m["keep"]:
            bench.drop(m["id"])
        self._say("timed", m["id"], times=rounds.times, cut=rounds.cut, run=run, note=note, rss=resident_bytes())

    def _drop(self, bench: Bench, m: wire.Message) -> None:
        bench.drop(m["id"])

    def _fail(self, m: wire.Message, status: Status, cause: str) -> None:
        """`m` is what it was told to do."""
        number, bench = m.get("id"), self._benches.get(m["bench"])
        if bench is not None and number is not None:
            bench.drop(number)
        self._say("failed", number, status=status.value, cause=cause, rss=resident_bytes())

    def _say(self, did: str, number: int | None, **facts: Any) -> None:
        wire.write(self._replies, {"did": did, "id": number, "at": time.monotonic(), **facts})


def limit_memory(more: int | None) -> None:
    """Bound the address space to what it is now and `more` bytes, None: not at all; no core files of crashed candidates."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = hard if more is None else pages * os.sysconf("SC_PAGE_SIZE") + more
    if hard == resource.RLIM_INFINITY or limit <= hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def lower_priority_for_memory() -> None:
    """If the machine runs out of memory, a worker is to go before the tuner."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800")


def resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def watch_parent(folder: Path, parent: int) -> threading.Thread:
    """A thread that ends this process with its parent, whose number is given: it may be gone before one can ask who it was."""
    watch = threading.Thread(target=_die_with_parent, args=(parent, folder), daemon=True)
    watch.start()
    return watch


def _die_with_parent(parent: int, folder: Path) -> None:
    """Wait until standard input has no writer left, or the parent is another one (a fork of it may hold the pipe open)."""
    closed = select.poll()
    closed.register(0, 0)  # hang-up and errors are always reported
    while not closed.poll(1000) and os.getppid() == parent:
        pass
    for _ in range(200):  # a dying process closes its files first, and takes its time on a busy machine
        if os.getppid() != parent:  # it cannot clean up any more
            shutil.rmtree(folder, ignore_errors=True)
            break
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)


def load_hook(place: str) -> Callable[..., None]:
    """The function at "path/to/file.py:name": tests use it to inject faults."""
    path, _, name = place.rpartition(":")
    spec = importlib.util.spec_from_file_location("tensorsmith_measure_hook", path)
    if spec is None or spec.loader is None:
        raise InternalError(f"no Python file at {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook: Callable[..., None] = getattr(module, name)
    return hook


if __name__ == "__main__":
    main()
