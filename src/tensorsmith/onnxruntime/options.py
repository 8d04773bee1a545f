"""What a session asks of the provider. ONNX Runtime carries options as text, so each is one, and is checked on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from tensorsmith.compile import check_effort
from tensorsmith.errors import Parameter, UserError, whole_number
from tensorsmith.targets.host import MOST_THREADS

NAMES = ("database", "threads", "effort", "trust_compiled")


@dataclass(frozen=True)
class Options:
    """`ts.compile`'s database, threads and effort; `trust_compiled` lets machine code in models run."""

    database: str | None = None
    threads: int | None = None
    effort: str | None = None
    trust_compiled: bool = False

    def texts(self) -> dict[str, str]:
        """As ONNX Runtime carries them: those that were given."""
        given = {"database": self.database, "threads": self.threads, "effort": self.effort}
        found = {name: str(value) for name, value in given.items() if value is not None}
        return found | ({"trust_compiled": "1"} if self.trust_compiled else {})


def checked(database: str | PathLike[str] | None, threads: int | str | None, effort: str | None, trust_compiled: bool) -> Options:
    """Options that can be, or a `UserError`."""
    number = None if threads is None else whole_number(threads)
    if threads is not None and (number is None or not 1 <= number <= MOST_THREADS):
        raise UserError(Parameter("threads"), f" is {threads!r}; give a number from 1 to {MOST_THREADS}")
    check_effort(effort)
    if database is not None and not isinstance(database, (str, PathLike)):
        raise UserError(f"database is {database!r}; give the path of a record file")
    path = None if database is None else str(Path(fspath(database)).absolute())
    if path is not None and not Path(path).is_file():
        raise UserError(Parameter("database"), f": there is no file {path}")
    if not isinstance(trust_compiled, bool):
        raise UserError(Parameter("trust_compiled"), f" is {trust_compiled!r}; give True or False")
    return Options(path, number, effort, trust_compiled)


def of_texts(texts: Mapping[str, str]) -> Options:
    """The options of a session, as ONNX Runtime gives them."""
    threads: str | int | None = texts.get("threads")
    if isinstance(threads, str) and threads.isascii() and threads.isdigit():
        threads = int(threads)
    trusted = texts.get("trust_compiled", "0")
    if trusted not in ("0", "1"):
        raise UserError(Parameter("trust_compiled"), f" is {trusted!r}; give 1 or 0")
    return checked(texts.get("database"), threads, texts.get("effort"), trusted == "1")
