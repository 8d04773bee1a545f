"""The page of a report: its data as JSON, a template, and the plotting library, all inside one HTML file."""

from __future__ import annotations

import dataclasses
import html
import importlib.resources
import json
import re
from pathlib import Path
from typing import Any

from tensorsmith.errors import UserError, install
from tensorsmith.files import replacing
from tensorsmith.report.data import Kernel, Point, Report, Roof, Setting, Task, reached
from tensorsmith.show.line import page as shown
from tensorsmith.show.line import plain

_SCRIPTS = ("basics.js", "charts.js", "panels.js", "page.js")


def page(report: Report, refresh: float | None = None) -> str:
    """The HTML text. With `refresh`, it loads itself again after so many seconds."""
    parts = {
        "title": html.escape(plain(f"{report.title}: tuning report")),
        "style": _part("page.css"),
        "data": _in_script(json.dumps(_shown(to_json(report)) | {"refresh": refresh}, allow_nan=False)),
        "library": library(),
        "script": "\n".join(map(_part, _SCRIPTS)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _part("page.html"))


def write(report: Report, path: str | Path, refresh: float | None = None) -> None:
    """Writes the page to a file, which is there complete or not at all."""
    path = Path(path)
    text = page(report, refresh)
    try:
        with replacing(path) as stream:
            stream.write(text.encode("utf-8", "replace"))
    except OSError as problem:
        raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from problem


def to_json(report: Report) -> dict[str, Any]:
    """What the script of the page reads: the fields and properties of the data by their names, points by columns."""
    kernels = [
        {**_fields(k), "rate": k.rate, "intensity": k.intensity, "reached": _reached(k, report.roof)} for k in report.kernels
    ]
    return {**_fields(report), "kernels": kernels, "settings": [_setting(s) for s in report.settings]}


def library() -> str:
    """The source of plotly.js, as the Python package brings it."""
    missing = f"a report needs the package plotly, whose plotly.js draws its pictures: {install('report')}"
    try:
        return (importlib.resources.files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError as problem:
        raise UserError(missing) from problem
    except OSError as problem:
        raise UserError(f"{missing} (the one that is installed has no plotly.min.js)") from problem


def _setting(setting: Setting) -> dict[str, Any]:
    own = {name: getattr(setting, name) for name in ("trials", "before", "after")}
    return {**_fields(setting), **own, "tasks": [_task(t, setting.roof) for t in setting.tasks]}


def _reached(done: Task | Kernel, roof: Roof | None) -> Any:
    return _plain(reached(done, roof)) if roof is not None else None


def _task(task: Task, roof: Roof) -> dict[str, Any]:
    own = {name: getattr(task, name) for name in ("before", "rate", "intensity")} | {"reached": _reached(task, roof)}
    columns = {f.name: [getattr(p, f.name) for p in task.points] for f in dataclasses.fields(Point)}
    return {**_fields(task), **own, "points": columns}


def _fields(value: Any) -> dict[str, Any]:
    """The fields, but for those that are too many to be made twice."""
    large = ("settings", "tasks", "points")
    return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name not in large}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(x) for x in value]
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _shown(value: Any) -> Any:
    """The data with every text as it may be shown: names come from models and record files of strangers."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {shown(key): _shown(entry) for key, entry in value.items()}
    return [_shown(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _in_script(text: str) -> str:
    """JSON that no text in it can end the script with."""
    return text.replace("<", "\\u003c")


def _part(name: str) -> str:
    return (importlib.resources.files("tensorsmith.report") / "page" / name).read_text(encoding="utf-8")
