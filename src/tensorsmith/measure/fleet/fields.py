"""Reading what another machine sent: a field has the type, the range and the length that it should have, or `Malformed` says which
has not."""

from __future__ import annotations

from typing import Any

from tensorsmith.show.line import cut, plain

_LONGEST = 1 << 16  # characters of a text: a compiler's complaints may be long
_KEPT = 2000  # characters of it that people are shown
_SHOWN = 40  # characters of a value that is wrong


class Malformed(Exception):
    """What came is not what it should be; the text says which field, in one line."""


class Fields:
    """The fields of a JSON object. Each getter gives a value of its type, `default` where there is none, or raises `Malformed`."""

    def __init__(self, form: object, what: str) -> None:
        if not isinstance(form, dict):
            raise Malformed(f"{what} is {_shown(form)}, and should be an object")
        self._form: dict[Any, Any] = form
        self._what = what

    def has(self, name: str) -> bool:
        """Whether there is a value; None is none."""
        return self._form.get(name) is not None

    def value(self, name: str) -> object:
        """As it came: for those who check it themselves."""
        return self._form.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        """One line without control characters."""
        value = self._get(name, default)
        if not isinstance(value, str) or len(value) > _LONGEST:
            raise self._wrong(name, f"a text of {_LONGEST} characters at most")
        return cut(plain(value), _KEPT)

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """A list of texts; of more than `most` the first ones."""
        value = self._get(name, [])
        if not isinstance(value, list) or not all(isinstance(v, str) and len(v) <= _LONGEST for v in value):
            raise self._wrong(name, "a list of texts")
        return tuple(cut(plain(v), _KEPT) for v in value[:most])

    def whole(self, name: str, low: int, high: int) -> int:
        value = self._get(name, None)
        if type(value) is not int or not low <= value <= high:
            raise self._wrong(name, f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        return self._number(name, self._get(name, default), low, high)

    def optional(self, name: str, low: float, high: float) -> float | None:
        """A number, or None."""
        return self.number(name, low, high) if self.has(name) else None

    def numbers(self, name: str, low: float, high: float, most: int) -> list[float]:
        value = self._get(name, [])
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(name, f"a list of {most} numbers at most")
        return [self._number(name, v, low, high) for v in value]

    def flag(self, name: str, default: bool | None = None) -> bool:
        value = self._get(name, default)
        if type(value) is not bool:
            raise self._wrong(name, "true or false")
        return value

    def objects(self, name: str, most: int) -> list[Fields]:
        value = self._get(name, None)
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(name, f"a list of {most} objects at most")
        return [Fields(v, f"{name}[{n}]") for n, v in enumerate(value)]

    def inner(self, name: str) -> Fields:
        """An object of its own; without any fields if there is none."""
        return Fields(self._get(name, {}), name)

    def _get(self, name: str, default: object) -> object:
        value = self._form.get(name)
        return default if value is None else value

    def _number(self, name: str, value: object, low: float, high: float) -> float:
        if type(value) not in (int, float) or not low <= value <= high:  # type: ignore[operator]  # false for NaN, too
            raise self._wrong(name, f"a number from {low:g} to {high:g}")
        return float(value)  # type: ignore[arg-type]

    def _wrong(self, name: str, wanted: str) -> Malformed:
        return Malformed(f"{name} of {self._what} is {_shown(self._form.get(name))}, and should be {wanted}")


def _shown(value: object) -> str:
    """A hint at a value that may be anything: text and numbers as they are, of all else its type."""
    if isinstance(value, str):
        return cut(plain(repr(value[:_SHOWN])), _SHOWN)
    if value is None:
        return "missing"
    if isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 64):
        return repr(value)
    return f"a {type(value).__name__}"
