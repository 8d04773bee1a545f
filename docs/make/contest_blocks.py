"""Blocks of contests: ours beside peers, tuned and untuned."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from typing import Any

from figure_texts import mean, microseconds, milliseconds, number, table, time_text
from standing import COLUMNS, OURS, UNTUNED, Row, Standing, best_peer, cells, is_winograd, name_of, named_behind, ratio
from standing import standing as standing_of

Result = Mapping[str, Any]
Found = Mapping[str, Result]  # the files that there are, by table


def contest(result: Result) -> str:
    """The summary of a contest, who is behind, then every case."""
    rows: Mapping[str, Row] = result["cases"]
    stood = {"tuned": standing_of(rows, True), "untuned": standing_of(rows, False)}
    there: dict[str, Standing] = {kind: one for kind, one in stood.items() if one is not None}
    lines = [table([COLUMNS, *(cells(kind, one) for kind, one in there.items())]), ""]
    lines += [f"* {kind.capitalize()}: {named_behind(one)}" for kind, one in there.items()]
    lines += [*_gain(rows), *_winners(rows), *notes(rows), "", table([_HEAD, *(_case(case, row) for case, row in rows.items())])]
    return "\n".join(lines)


_HEAD = (
    "case",
    "tuned",
    "medians",
    "untuned",
    "medians",
    "best peer",
    "its time",
    "ours",
    "ours, median",
    "of peak",
    "formulation",
    "s of search",
)


def _case(case: str, row: Row) -> tuple[str, ...]:
    tuned, untuned = name_of(row, True), name_of(row, False)
    same = bool(row.get("same_program")) and tuned is not None
    own, peer = row.get("seconds", {}), best_peer(row)
    ours = tuned or untuned
    return (
        case.replace("|", "/") + (" !" if row.get("disturbed", 0) > 0.2 else ""),
        number(ratio(row, tuned)) if tuned else "",
        number(ratio(row, tuned, "median_seconds")) if tuned else "",
        "default" if same else number(ratio(row, untuned)),
        "" if same else number(ratio(row, untuned, "median_seconds")),
        peer or "",
        time_text(own.get(peer)),
        f"error: {row['error'].splitlines()[0][:60]}" if "error" in row else time_text(own.get(ours)),
        time_text(row.get("median_seconds", {}).get(ours)),
        number(row.get("share_of_peak"), "{:.0%}") if row.get("share_of_peak") else "",
        row.get("formulation", "") if is_winograd(row, True) else "",
        number(row.get("seconds_searching"), "{:.0f}") if row.get("seconds_searching") else "",
    )


def _gain(rows: Mapping[str, Row]) -> list[str]:
    """What tuning is worth, and what it made slower: by best samples and by medians."""
    found = {}
    for key in ("seconds", "median_seconds"):
        both = {c: r for c, r in rows.items() if r.get("same_program") or UNTUNED in r.get(key, {})}
        found[key] = {
            c: 1.0 if r.get("same_program") else r[key][UNTUNED] / r[key][OURS] for c, r in both.items() if OURS in r.get(key, {})
        }
    best, medians = found["seconds"], found["median_seconds"]
    if not best or not any(row.get("trials") for row in rows.values()):
        return []
    kept = sum(bool(row.get("same_program")) for row in rows.values())
    slower = ", ".join(f"{case} {r:.2f}" for case, r in sorted(best.items(), key=lambda item: item[1]) if r < 0.97) or "none"
    means = " and ".join(f"{mean(some.values()):.3f} by {what}" for some, what in ((best, "best samples"), (medians, "medians")))
    said = f"Tuned to untuned: {means}; the default schedule was kept in {kept} of {len(rows)}"
    return [f"* {said}. Slower than 0.97 of untuned: {slower}."]


def _winners(rows: Mapping[str, Row]) -> list[str]:
    """In which of its ways the best peer was, how often; and why a share of the peak may be above 1."""
    counted = Counter(peer for row in rows.values() if (peer := best_peer(row)) is not None)
    lines = [f"* The best peer was {', '.join(f'{name} ({n})' for name, n in counted.most_common())}."]
    if any(row.get("share_of_peak", 0) > 1 for row in rows.values()):
        lines.append(
            "* A share of the FMA peak counts the operations of the sum as it is written: it exceeds 100 % where taps on padding "
            "are left out, and where Winograd's convolution does fewer."
        )
    return lines


def notes(rows: Mapping[str, Row]) -> list[str]:
    disturbed = [case for case, row in rows.items() if row.get("disturbed", 0) > 0.2]
    absent: dict[str, list[str]] = {}
    for case, row in rows.items():
        for who, why in row.get("notes", {}).items():
            absent.setdefault(f"{who} ({why})", []).append(case)
    share = statistics.fmean([row.get("disturbed", 0.0) for row in rows.values()])
    lines = [f"* Slots disturbed: {share:.1%}; cases that stayed disturbed (!): {', '.join(disturbed) or 'none'}."]
    lines += [f"* Took no part in {len(some)} of {len(rows)}: {what}." for what, some in absent.items()]
    return lines


def networks(result: Result) -> str:
    """A contest, with the times of everybody's best way."""
    frameworks = ("torch", "torch.compile", "onnxruntime", "openvino")
    lines: list[tuple[str, ...]] = [("network, ms", "untuned", "tuned", *frameworks)]
    for case, row in result["cases"].items():
        own = row.get("seconds", {})
        best = [min((s for n, s in own.items() if n.split()[0] == f), default=None) for f in frameworks]
        lines.append((case, *(milliseconds(own.get(name_of(row, tuned))) for tuned in (False, True)), *map(milliseconds, best)))
    return f"{contest(result)}\n\n{table(lines)}"


def torch_modules(result: Result) -> str:
    """What runs at all, then the contest against eager and inductor in all their ways, and against both as they come."""
    rows = result["cases"]
    checked: list[tuple[str, ...]] = [
        ("architecture", "parameters", "graphs", "kernels", "left to PyTorch", "difference from eager")
    ]
    for name, row in rows.items():
        left = ", ".join(row.get("left", {})) or ("whole graphs" if row.get("left_whole") else "none")
        off = number(row.get("difference", {}).get(OURS), "{:.0e}")
        checked.append(
            (name, f"{row.get('parameters', 0) / 1e6:.1f} M", str(row.get("graphs")), str(row.get("kernels")), left, off)
        )
    ways = {
        "eager": ("eager", "eager last"),
        "inductor": ("inductor", "inductor last"),
        "frozen": ("inductor frozen",),
        "autotuned": ("inductor autotuned",),
    }
    timed: list[tuple[str, ...]] = [
        (
            "architecture, ms",
            "ours",
            "`from_torch`",
            *ways,
            "to eager and inductor as they come",
            "s to compile: ours",
            "inductor",
            "autotuned",
        )
    ]
    for name, row in rows.items():
        own, prepared = row.get("seconds", {}), row.get("seconds_preparing", {})
        best = [milliseconds(min((own[n] for n in some if n in own), default=None)) for some in ways.values()]
        compiled = [number(prepared.get(n), "{:.1f}") for n in (OURS, "inductor", "inductor autotuned")]
        plain = number(row.get("ratio_to_eager_and_inductor"))
        timed.append((name, milliseconds(own.get(OURS)), milliseconds(own.get(f"{OURS} from_torch")), *best, plain, *compiled))
    return f"{table(checked)}\n\n{contest(result)}\n\n{table(timed)}"


def int8(result: Result) -> str:
    """A contest, with how exact everyone is, how far from f32, and beside our own f32."""
    head = ("case", "to our f32", "to our f32 without Winograd's transforms", "equal to the exact answer", "within a step of it")
    lines: list[tuple[str, ...]] = [(*head, "nearest peer within a step", "off from f32", "the best peer off from f32")]
    for case, row in result["cases"].items():
        near, off = row.get("within_a_step_of_exact", {}), row.get("error_to_f32", {})
        theirs = max((share for name, share in near.items() if name != OURS), default=None)
        ours = [number(row.get(f"ratio_to_own_f32{which}")) for which in ("", "_direct")]
        shares = [number(share, "{:.3%}") for share in (row.get("equal_to_exact"), near.get(OURS), theirs)]
        lines.append((case, *ours, *shares, *(number(off.get(name), "{:.1%}") for name in (OURS, best_peer(row)))))
    return f"{contest(result)}\n\n{table(lines)}"


def int8_without_dots(found: Found) -> str:
    """Two runs beside our own f32: any weights, and small ones."""
    sizes = {"any weights": "int8-avx2", "small weights": "int8-avx2-small"}
    keys = {"": "ratio_to_own_f32", ", f32 without Winograd's transforms": "ratio_to_own_f32_direct"}
    lines: list[tuple[str, ...]] = [("layer, times our f32", *(f"{size}{what}" for what in keys for size in sizes))]
    for case in found["int8-avx2"]["cases"]:
        rows = {size: found[file]["cases"].get(case, {}) for size, file in sizes.items()}
        lines.append((case, *(number(rows[size].get(key)) for key in keys.values() for size in sizes)))
    return table(lines)


def outside(result: Result) -> str:
    """Ours in three ways against each of the two."""
    rows: Mapping[str, Row] = result["cases"]
    ours = {"64 trials": OURS, "as many seconds as TVM": f"{OURS} equal seconds", "no search": UNTUNED}
    lines: list[tuple[str, ...]] = [("ours with", *COLUMNS[1:])]
    for peer in ("tvm-wheel", "halide-wheel"):
        alone = {case: _with(row, peer) for case, row in rows.items() if peer in row.get("seconds", {})}
        for what, name in ours.items():
            names = {
                case: OURS if name == UNTUNED and row.get("same_program") and UNTUNED not in row["seconds"] else name
                for case, row in alone.items()
            }
            found = _standing_by(alone, names, name != UNTUNED)
            if found is not None:
                lines.append(cells(f"{what}, against {peer}", found))
    seconds = {
        who: [row["searching"][who] for row in rows.values() if who in row.get("searching", {})]
        for who in (OURS, "tvm-wheel", "halide-wheel")
    }
    spent = ", ".join(f"{who} {sorted(some)[len(some) // 2]:.0f}" for who, some in seconds.items() if some)
    absent = notes(rows)
    each = [("case, us", *ours, "tvm-wheel", "halide-wheel")]
    each += [
        (case, *(microseconds(row["seconds"].get(n)) for n in (*ours.values(), "tvm-wheel", "halide-wheel")))
        for case, row in rows.items()
    ]
    return "\n".join([table(lines), "", f"* Seconds of search in the median: {spent}.", *absent, "", table(each)])


def _with(row: Row, peer: str) -> Row:
    """The row as if there were no other peer."""
    kept = {
        key: {n: s for n, s in row.get(key, {}).items() if n == peer or n.split()[0] == OURS}
        for key in ("seconds", "median_seconds")
    }
    return {**row, **kept}


def _standing_by(rows: Mapping[str, Row], names: Mapping[str, str], tuned: bool) -> Standing | None:
    renamed = {
        case: {**row, **{key: _renamed(row.get(key, {}), names[case]) for key in ("seconds", "median_seconds")}}
        for case, row in rows.items()
    }
    return standing_of(renamed, tuned, f"{OURS} chosen")


def _renamed(times: Mapping[str, float], name: str) -> dict[str, float]:
    return {**times, **({f"{OURS} chosen": times[name]} if name in times else {})}
