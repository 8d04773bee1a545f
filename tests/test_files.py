"""Files that take another one's place in one step, in folders where others may have left something."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tensorsmith.files import replacing

ROOT = Path(__file__).parents[1]


def names_used(path: Path, monkeypatch: pytest.MonkeyPatch, times: int = 3) -> list[str]:
    """Under what names a file is written before it is there."""
    found: list[str] = []
    opened = os.open

    def noted(name: str | Path, *rest: object, **options: object) -> int:
        found.append(Path(name).name)
        return opened(name, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", noted)
    for n in range(times):
        with replacing(path) as stream:
            stream.write(f"{n}".encode())
    monkeypatch.undo()
    return found


def test_nobody_can_foresee_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = names_used(tmp_path / "page.html", monkeypatch)
    assert len(set(found)) == 3 and all(len(set(name)) > 8 for name in found)
    assert (tmp_path / "page.html").read_text() == "2"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if it has the very name; the file itself may be one, and is replaced, not written through."""
    monkeypatch.setattr("secrets.token_hex", lambda count: "known")
    (tmp_path / "other").write_text("untouched")
    (tmp_path / ".known.part").symlink_to(tmp_path / "other")
    with pytest.raises(FileExistsError), replacing(tmp_path / "page.html") as stream:
        stream.write(b"x")
    (tmp_path / ".known.part").unlink()
    (tmp_path / "page.html").symlink_to(tmp_path / "other")
    with replacing(tmp_path / "page.html") as stream:
        stream.write(b"x")
    assert (tmp_path / "other").read_text() == "untouched" and not (tmp_path / "page.html").is_symlink()


def test_nothing_is_left_of_what_went_wrong(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    with pytest.raises(KeyError), replacing(tmp_path / "page.html") as stream:
        stream.write(b"half")
        raise KeyError
    assert (tmp_path / "page.html").read_text() == "old" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(os.name != "posix", reason="rights are those of POSIX")
def test_rights_are_those_of_a_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "page.html") as stream:
            stream.write(b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o640


def test_nobody_writes_under_a_name_that_can_be_foreseen() -> None:
    """Whoever replaces a file does it through `files`; `records/lines.py` uses `tempfile`, and never replaces one."""
    own = re.compile(r"os\.replace\(|os\.rename\(|\.rename\(|\b(?:new|draft|temporary|temp|tmp)\.replace\(")
    found = {str(p.relative_to(ROOT / "src/tensorsmith")) for p in (ROOT / "src").rglob("*.py") if own.search(p.read_text())}
    assert found <= {"files.py", "records/lines.py", "measure/fleet/published.py"}
