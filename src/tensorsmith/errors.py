"""The three kinds of error, so that a caller can tell whose fault it is.

`UserError`   what was given is wrong; the message names what, where, and what would be right.
`Refusal`     a candidate cannot be lowered or compiled; cheap, expected during search, counted with its cause.
`InternalError`  a bug of ours.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tensorsmith.show.line import page


@dataclass(frozen=True)
class Parameter:
    """What a message tells its reader to give: an argument to callers in Python, an option to users of the command line.

    `name` is the argument's, `value` what to give for it; of an argument that is a mapping, `entries` are those to give. As text
    it is Python. `of` is the function that takes it, where arguments of several share the name.
    """

    name: str
    value: str = ""
    entries: tuple[tuple[str, str], ...] = ()
    of: str = ""

    def __str__(self) -> str:
        given = "{" + ", ".join(f'"{key}": {value}' for key, value in self.entries) + "}" if self.entries else self.value
        return f"{self.name}={given}" if given else self.name


@dataclass(frozen=True)
class Action:
    """What a message tells its reader to do: a call to callers in Python, a command to users of the command line.

    `name` is what the command line calls it, `python` the call; `arguments` go into either. As text it is Python.
    """

    name: str
    python: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"`{self.python.format(*map(repr, self.arguments))}`"


def install(extra: str = "", version: str = "") -> str:
    """The command that brings an extra of the package, or the package itself, of a version: `pip install '.[onnx]' in a checkout`.

    The package is on no index: whoever took its name there would be somebody else, so no message of ours names it to pip.
    """
    what = f"'.[{extra}]'" if extra else "."
    return f"pip install {what} in a checkout of Tensorsmith{f' {version}' if version else ''}"


#: what a message is made of: text as it stands, and what each reader is told in their own words
Part = str | Parameter | Action

TUNE = Action("tune", "ts.tune(..., database=...)")
COMPILE = Action("compile", "ts.compile(model).save(path)")
TARGETS = Action("targets", "ts.targets()")


def compile_for(target: str) -> tuple[Part, ...]:
    """The two ways to a program for another machine, without a search."""
    compile = Action("compile MODEL --target {}", "ts.compile(model, target={}).save(path)", (target,))
    export = Action("export MODEL --target {} -o FOLDER", "ts.compile(model, target={}).export(folder)", (target,))
    return compile, " makes an executable, ", export, " a C library"


_ONLY_TO_COMPILE = ("llvmlite", "lightgbm")


class TensorsmithError(Exception):
    """Base of every error raised on purpose. What it says may have names of a stranger's model in it: as text it is harmless."""

    def __str__(self) -> str:
        return page(super().__str__())


class UserError(TensorsmithError, ValueError):
    """The input is wrong; the message says what would be right. As text it speaks to callers in Python, see `told`."""

    def __init__(self, *parts: Part) -> None:
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.told(str)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def told(self, words: Callable[[Parameter | Action], str]) -> str:
        """The message with its parameters and actions in other words."""
        return page("".join(words(part) if isinstance(part, (Parameter, Action)) else str(part) for part in self.parts))

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the message is made of, to go into another one."""
        return self.args


class NotInstalled(UserError, ImportError):
    """What was asked for needs a package that is not there."""

    def __init__(self, package: str, what: str) -> None:
        super().__init__(f"{what} needs the package {package}, which is not installed: pip install {package}")


@contextlib.contextmanager
def needed_for(what: str) -> Iterator[None]:
    """Around imports: a package that is left out where executables only run is an error that says what needs it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in _ONLY_TO_COMPILE:
            raise
        raise NotInstalled(package, what) from missing
    except OSError as problem:
        if (library := missing_library(problem)) is None:
            raise
        raise UserError(f"{what} needs {library}") from problem


def missing_library(problem: OSError) -> str | None:
    """What to install where a package cannot be loaded for want of a library of the system; None: it is something else."""
    if "libgomp" not in str(problem):
        return None
    return "the system's library libgomp.so.1, which slim images leave out: apt-get install libgomp1, or your system's libgomp"


class OutOfMemory(UserError, MemoryError):
    """What was given needs more memory than there is. `what` is the tensor or the part of a program that needs `size` bytes."""

    def __init__(self, what: str, size: int) -> None:
        super().__init__(f"{what} needs {size:,} bytes ({_in_words(size)}), more memory than there is; make it smaller")


def _in_words(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} PiB"


def whole_number(given: object) -> int | None:
    """The integer that a user gave, of any type that counts as one, NumPy's too; None if it is none. A bool is none."""
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        return None
    try:
        return operator.index(given)
    except TypeError:  # an array of several
        return None


class Refusal(TensorsmithError):
    """This candidate cannot be built. `cause` is a short stable word under which refusals are counted."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause


class InternalError(TensorsmithError):
    """A bug in Tensorsmith."""
