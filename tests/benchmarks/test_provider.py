"""The benchmark of the provider on its smallest network: what it compares is right; the times mean nothing."""

import json
from pathlib import Path

import numpy as np
import pytest

import provider
from contest import WrongAnswer


def test_a_row_and_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    provider.main(["perceptron", "--seconds", "0.01", "--threads", "1", "--json", str(tmp_path / "rows.json")])
    (row,) = json.loads((tmp_path / "rows.json").read_text()).values()
    assert row["parts"] == 1 and row["equal_bits"] and set(row["seconds"]) == {provider.SESSION, provider.DIRECT, provider.THEIRS}
    assert "perceptron" in capsys.readouterr().out


def test_a_wrong_answer_is_seen() -> None:
    right, wrong = np.ones((2, 2), np.float32), np.full((2, 2), 1.1, np.float32)
    assert provider._check("network", [right], {"y": right}, [right])
    assert not provider._check("network", [right], {"y": right * np.float32(1.0001)}, [right])
    for mine, own in ((wrong, right), (right, wrong)):
        with pytest.raises(WrongAnswer, match="y of network"):
            provider._check("network", [mine], {"y": own}, [right])
