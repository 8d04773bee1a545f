"""What the system says of the machine that a node runs on."""

from __future__ import annotations

from pathlib import Path

from tensorsmith.measure.fleet.health import Health, health


def test_load_and_temperature(tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("1.25 0.80 0.60 2/300 4711\n")
    for n, text in enumerate(("48500\n", "61000\n", "-273000\n", "no number")):
        (tmp_path / f"thermal_zone{n}").mkdir()
        (tmp_path / f"thermal_zone{n}" / "temp").write_text(text)
    assert health(tmp_path, tmp_path) == Health(1.25, 61.0)
    assert health(tmp_path / "nothing", tmp_path / "nothing") == Health(None, None)
