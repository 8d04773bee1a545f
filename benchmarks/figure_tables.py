"""The tables of README and of the pages of evidence: which command makes each, how long that may take, and where it is shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TIERS = ("quick", "readme", "all")
MINUTES = {"quick": 10, "readme": 60, "all": 180}  # what each tier may take on two cores
SEED = 20261118  # of `drawn.py`: a new one for every release, so that nobody can have looked at what it draws


@dataclass(frozen=True)
class FigureTable:
    """`words` are the script's arguments; "{json}" is the file that it writes, "{work}" a folder for what else it keeps. `quick`
    are its arguments in a trial of the machinery, whose figures are never published; None: it takes no part there."""

    name: str
    page: str  # where it is shown
    readme: bool  # whether README shows it
    script: str
    words: tuple[str, ...]
    minutes: float  # of two cores
    quick: tuple[str, ...] | None = None
    quick_minutes: float = 0.0
    form: str = "rows"  # of the script's JSON file (`results.CASES`)

    def arguments(self, quick: bool) -> tuple[str, ...]:
        chosen = self.quick if quick else self.words
        assert chosen is not None, f"{self.name} has no quick form"
        return chosen

    def takes_part(self, tier: str) -> bool:
        return tier == "all" or (self.readme if tier == "readme" else self.quick is not None)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_JSON = "--json {json}"
_POLICIES = "tensorsmith,random,halide,beam,autotvm,ansor,flextensor,metaschedule"
_PARTS = "noseeds,noprior,notrees,noevolution,nodescent,nopretrained"
_INT8_NETWORKS = "resnet50,mobilenet_v2,bert_base,whisper"

TABLES: dict[str, FigureTable] = {
    table.name: table
    for table in (
        FigureTable(
            "drawn", "benchmarks.md", True, "drawn.py",
            _words(f"--seed {SEED} --count 60 --trials 64 --seconds 5 --timing 1 {_JSON}"), 18,
            _words(f"--seed {SEED} --count 6 --trials 4 --seconds 2 --timing 0.2 {_JSON}"), 2,
        ),
        FigureTable(
            "operators-b1", "benchmarks.md", True, "ops.py",
            _words(f"--batch 1 --trials 64 --seconds 5 --timing 1 {_JSON}"), 13,
            _words(f"--batch 1 --only GMM-1-b1,DEP-3-b1,C2D-4-b1 --trials 4 --seconds 2 --timing 0.2 {_JSON}"), 1,
        ),
        FigureTable(
            "operators-b16", "benchmarks.md", True, "ops.py",
            _words(f"--batch 16 --trials 64 --seconds 5 --timing 1 {_JSON}"), 14,
            _words(f"--batch 16 --only GMM-1-b16,DEP-4-b16 --trials 4 --seconds 2 --timing 0.2 {_JSON}"), 1,
        ),
        FigureTable(
            "networks", "networks.md", True, "networks.py",
            _words(f"--models mobilenet_v2,dcgan,bert_base,resnet50,resnet3d_18 --seconds 30 --timing 4 {_JSON}"), 12,
            _words(f"--models dcgan --seconds 5 --timing 0.5 {_JSON}"), 2,
        ),
        FigureTable(
            "int8-networks", "small-types.md", True, "int8.py",
            _words(f"--only networks --cases {_INT8_NETWORKS} --timing 3 {_JSON}"), 3,
            _words(f"--only networks --cases mobilenet_v2 --timing 0.5 {_JSON}"), 1,
        ),
        FigureTable(
            "torch", "pytorch.md", False, "torch_models.py",
            _words(f"--timing 2 {_JSON}"), 30, _words(f"--models dcgan --timing 0.5 {_JSON}"), 2,
        ),
        FigureTable(
            "int8-layers", "small-types.md", False, "int8.py",
            _words(f"--only layers --timing 1 {_JSON}"), 2, _words(f"--only layers --cases matmul-512 --timing 0.2 {_JSON}"), 0.3,
        ),
        FigureTable(
            "int8-avx2", "small-types.md", False, "int8.py",
            _words(f"--only layers --target znver3 --threads 1 --timing 0.5 --largest 127 {_JSON}"), 2,
        ),
        FigureTable(
            "int8-avx2-small", "small-types.md", False, "int8.py",
            _words(f"--only layers --target znver3 --threads 1 --timing 0.5 --largest 63 {_JSON}"), 2,
        ),
        FigureTable("bf16", "small-types.md", False, "bf16.py", _words(f"--seconds 1 {_JSON}"), 2),
        FigureTable("weights", "small-types.md", False, "weights.py", _words(f"--seconds 5 {_JSON}"), 1),
        FigureTable("gpt2", "small-types.md", False, "gpt2.py", _words(f"--seconds 10 {_JSON}"), 2),
        FigureTable(
            "call-overhead", "benchmarks.md", False, "codegen.py", _words(f"--only overhead --timing 2 {_JSON}"), 1,
            _words(f"--only overhead --timing 0.2 --quick {_JSON}"), 0.3,
        ),
        FigureTable(
            "compile-times", "networks.md", False, "compile_times.py", _words(f"--make {_JSON}"), 3,
            _words(f"--models lstm_100,transformer_12 {_JSON}"), 0.4, form="models",
        ),
        FigureTable("bounds", "figures.md", False, "bounds.py", _words(_JSON), 3, form="kernels"),
        FigureTable(
            "no-trial", "figures.md", False, "no_trial.py", _words(f"--batch 16 --trials 0 --seconds 0.2 {_JSON}"), 3, form="tasks"
        ),
        FigureTable(
            "policies", "figures.md", False, "policies.py",
            _words(
                f"--trials 64 --seeds 3 --only {_POLICIES} --workloads GMM-3-b1,C2D-4-b1,DEP-1-b1,TBS-1-b1,mobilenet_v2,bert_base "
                f"--out {{work}} {_JSON}"
            ), 9, form="policies",
        ),
        FigureTable(
            "parts", "figures.md", False, "policies.py",
            _words(
                "--trials 64 --seeds 3 --only tensorsmith," + ",".join(f"tensorsmith-{part}" for part in _PARTS.split(","))
                + f" --workloads GMM-3-b1,C2D-4-b1,DEP-1-b1,TBS-1-b1,mobilenet_v2,bert_base --out {{work}} {_JSON}"
            ), 5, form="policies",
        ),
        FigureTable("paper", "figures.md", False, "paper.py", _words(f"--quick --out {{work}} {_JSON}"), 6),
        FigureTable("outside", "comparison.md", False, "outside.py", _words(f"--batch 1 --trials 64 --timing 0.5 {_JSON}"), 49),
    )
}  # fmt: skip


def of_tier(tier: str) -> list[FigureTable]:
    return [table for table in TABLES.values() if table.takes_part(tier)]


def minutes(tables: Iterable[FigureTable], quick: bool) -> float:
    """What tables may take together."""
    return sum(table.quick_minutes if quick else table.minutes for table in tables)
