"""Rows, tables and lines, from comparisons that were made up."""

import io
import json
import math

import pytest
from rich.console import Console

import about
import report
import rows
import runs
from rows import ALONE, DISTURBED, OURS, UNTUNED, geometric_mean, row
from summary import summary
from tables import comparison_table, page_table
from tensorsmith.measure.referee import Comparison, Timing


def timing(best: float) -> Timing:
    return Timing(best, (2 * best, 2 * best, 4 * best), 1)


def comparison(*, disturbed: float = 0.0, retaken: int = 0, **seconds: float) -> Comparison:
    names = {"ours": OURS, "untuned": UNTUNED, "alone": ALONE}
    timings = {names.get(name, name): timing(best) for name, best in seconds.items()}
    return Comparison(timings, frozenset(names.values()), 4e9, disturbed, retaken)


TUNED = comparison(ours=1e-3, untuned=1.2e-3, alone=0.9e-3, torch=2e-3, openvino=1.5e-3)


def printed(table: object) -> str:
    console = Console(width=240, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text()


def cells(table: object) -> list[dict[str, str]]:
    """By heading, of every line."""
    lines = [
        [c.strip() for c in line.strip("│┃").replace("┃", "│").split("│")]
        for line in printed(table).splitlines()
        if line[:1] in "│┃"
    ]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def test_row_has_the_agreed_figures():
    entry = row(TUNED, flops=2e6, seconds_searching=1.5, trials=64)
    assert entry["ratio_to_best_peer"] == pytest.approx(1.5)
    assert entry["best_peer"] == "openvino"
    assert entry["untuned_ratio_to_best_peer"] == pytest.approx(1.25)
    assert entry["tuned_to_untuned"] == pytest.approx(1.2)
    assert entry["median_ratio_to_best_peer"] == pytest.approx(1.5)
    assert entry["ratio_quartiles"] == pytest.approx([1.5, 1.5])
    assert entry["share_of_peak"] == pytest.approx(0.5)  # of the call, not of the code alone
    assert entry["peer_share_of_peak"] == pytest.approx(1 / 3)
    assert (entry["seconds_searching"], entry["trials"], entry["retaken"], entry["rounds"]) == (1.5, 64, 0, 3)
    assert entry["seconds"][ALONE] == 0.9e-3


def test_what_does_not_apply_is_left_out():
    alone = row(Comparison({OURS: timing(1.0)}, frozenset([OURS])), trials=None)
    assert not {"ratio_to_best_peer", "best_peer", "share_of_peak", "trials", "peak_flops", "tuned_to_untuned", "dropped"} & set(
        alone
    )
    without_ours = row(comparison(torch=1.0), flops=1e9, error="refused")
    assert not {"ratio_to_best_peer", "share_of_peak"} & set(without_ours)
    assert without_ours["best_peer"] == "torch"


def test_one_program_is_shown_once():
    entry = row(comparison(ours=1e-3, torch=2e-3), same_program=True)
    assert entry["untuned_ratio_to_best_peer"] == entry["ratio_to_best_peer"] == pytest.approx(2.0)
    assert entry["tuned_to_untuned"] == 1.0
    shown = cells(comparison_table("t", {"same": entry, "other": row(TUNED)}))
    assert (shown[0]["untuned"], shown[0]["to untuned"]) == ("default", "")
    assert (shown[1]["untuned"], shown[1]["to untuned"]) == ("1.250", "1.200")


def test_the_table_has_columns_for_what_there_is():
    assert "untuned" not in cells(comparison_table("t", {"a": row(comparison(ours=1.0, torch=2.0))}))[0]
    (line, mean) = cells(comparison_table("t", {"a": row(TUNED, flops=2e6, formulation="winograd")}))
    assert (line["of peak"], line["formulation"], line["code alone"]) == ("50.0%", "winograd", "900 µs")
    assert mean["ratio"] == "1.500"
    assert mean["of peak"] == ""  # shares of different formulations have no mean


@pytest.mark.parametrize(
    ("disturbed", "retaken", "text"), [(0.0, 0, "0%"), (0.1, 3, "10% (3 retaken)"), (DISTURBED + 0.1, 5, "30% (5 retaken) !")]
)
def test_a_case_that_stayed_disturbed_is_marked(disturbed, retaken, text):
    entry = row(comparison(ours=1.0, torch=2.0, disturbed=disturbed, retaken=retaken))
    assert cells(comparison_table("t", {"a": entry}))[0]["disturbed"] == text
    assert any("not to be believed" in line for line in summary({"a": entry})) == text.endswith("!")


def test_table_ends_with_the_geometric_mean_and_its_count():
    results = report.Report(Console(width=240, record=True, file=io.StringIO()))
    results.add("hand", "first", row(TUNED, flops=2e6))
    results.add("hand", "second", {"error": "Refusal: too large", "seconds": {"torch": 1.0}, "best_peer": "torch"})
    results.print("hand")
    text = results.console.export_text()
    assert "1.500 (1 of 2)" in text
    assert "Refusal: too large" in text


def entry(ratio: float, untuned: float) -> rows.Row:
    return row(comparison(ours=1.0, untuned=ratio / untuned, torch=ratio))


def test_the_summary():
    found = {
        "a": entry(8.0, 2.0),
        "b": entry(2.0, 2.0),
        "c": entry(0.5, 1.0),
        "d": row(comparison(ours=1.0, torch=1.0), same_program=True),
    }
    lines = summary(found)
    assert lines[0] == ("1.682 times the best peer (geometric mean of 4), 1.000 without its best row (a 8.00); behind: 1 (c 0.500)")
    assert lines[1].startswith("by medians: 1.682 times")
    assert lines[2] == (
        "untuned: 1.414 times the best peer (geometric mean of 4), 1.260 without its best row (a 2.00); behind: none"
    )
    assert lines[3:] == [
        "tuned to untuned: geometric mean 1.189; the default schedule itself is what runs in 1 of 4",
        "slower than 0.97 of untuned: 1 (c 0.500)",
        "by medians: geometric mean 1.189; slower: 1 (c 0.500)",
    ]


@pytest.mark.parametrize(("ratio", "who"), [(0.969, "1 (a 0.969)"), (0.971, "none")])
def test_slower_than_untuned_is_more_than_noise(ratio, who):
    assert f"slower than 0.97 of untuned: {who}" in summary({"a": entry(ratio, 1.0)})


def test_nothing_is_said_of_untuned_where_nothing_was_tuned():
    assert not any("untuned" in line for line in summary({"a": row(comparison(ours=1.0, torch=2.0))}))


# -- files ---------------------------------------------------------------------------------------------------------------


def test_json(tmp_path):
    file = tmp_path / "out.json"
    results = report.Report(Console(quiet=True))
    results.add("hand", "a", row(TUNED, flops=2e6))
    results.add("memory", "b", {"error": "broken"})
    results.write(file)
    assert report.read_json(file) == (results.run, results.rows())
    assert list(json.loads(file.read_text())) == ["_run", "a", "b"]
    assert list(results.rows()) == ["a", "b"]
    assert results.errors == 1
    with pytest.raises(ValueError, match="two results"):
        results.add("other", "a", {})
    with pytest.raises(ValueError, match="not JSON compliant"):
        report.write_json(file, {"a": {"ratio_to_best_peer": math.nan}})


def test_what_a_run_was(monkeypatch):
    monkeypatch.setattr(about, "_git", lambda *words: {"rev-parse": "0123456789abcdef", "status": " M file"}[words[0]])
    monkeypatch.setattr(about, "compiler", lambda: None)
    script = about.Path(about.__file__).with_name("ops.py")
    found = about.about([str(script), "--only", "C2D, GMM"])
    assert found["command"] == "python benchmarks/ops.py --only 'C2D, GMM'"
    assert set(found["versions"]) >= {"torch", "onnxruntime", "openvino", "numpy", "llvmlite"}
    text = about.contest_text(found | {"versions": {"torch": "2.0", "openvino": None}})
    assert "commit 0123456789ab, changed" in text
    assert "torch 2.0, openvino not installed" in text
    assert "none, so torch.compile takes no part" in text
    assert f"{found['cores']} cores" in text and "seed 0" in text


def test_the_run_is_printed_before_its_rows():
    results = report.Report(Console(width=240, record=True, file=io.StringIO()), run=about.about(["benchmarks/ops.py"]))
    results.begin()
    results.add("hand", "a", row(TUNED))
    text = results.console.export_text()
    assert text.index("benchmarks/ops.py") < text.index("a: 1.500 times openvino (1.50-1.50), untuned 1.250")


# -- several runs --------------------------------------------------------------------------------------------------------


def test_what_holds_in_every_run(tmp_path, capsys):
    made = [{"a": entry(2.0, 3.0), "b": entry(0.9, 0.5)}, {"a": entry(2.0, 1.0), "b": entry(0.8, 0.5)}]
    files = [str(tmp_path / f"{n}.json") for n in range(2)]
    for file, found in zip(files, made):
        report.write_json(file, found)
    runs.main(files)
    text = capsys.readouterr().out
    assert "behind the best peer: in every run b; in some none" in text
    assert "slower than 0.97 of untuned: in every run none; in some a" in text
    first = cells(runs.table(made))[0]
    assert [first[h] for h in ("ratio 1", "ratio 2", "to untuned 1", "to untuned 2")] == ["2.000", "2.000", "0.667", "2.000"]


def test_the_table_of_a_page_has_a_line_per_case_and_the_same_figures():
    lines = page_table({"C2D-1": row(TUNED, flops=2e6, seconds_searching=1.5, formulation="winograd")}).splitlines()
    assert [cell.strip() for cell in lines[0].strip("|").split("|")][:3] == ["case", "ratio", "medians"]
    assert lines[1].count("---") == lines[0].count("|") - 1
    assert lines[2] == "| C2D-1 | 1.50 | 1.50 | 1.50-1.50 | openvino | 1.25 | 1.20 | 50% (winograd) | 2 |"


def test_the_table_of_a_page_says_default_where_the_search_kept_it_and_marks_what_was_disturbed():
    kept = row(comparison(ours=1e-3, torch=2e-3, disturbed=1.0, retaken=5), flops=2e6) | {"same_program": True}
    (line,) = page_table({"GMM-1": kept}).splitlines()[2:]
    assert line.startswith("| GMM-1 ! |") and "| default |" in line


def test_geometric_mean():
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([3.0]) == pytest.approx(3.0)
    assert geometric_mean(iter([1e-200, 1e200, 1e-200, 1e200])) == pytest.approx(1.0)
    assert math.isnan(geometric_mean([]))
