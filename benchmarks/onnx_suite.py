"""ONNX's own backend tests, as it ships them.

    python benchmarks/onnx_suite.py [--only Conv,Gather] [--kinds node,pytorch-converted,pytorch-operator,light] [--all]
                                    [--reference] [--json FILE] [--page docs/operators.md]

Runs the tests of the operators that Tensorsmith is meant to support (`--all`: every test) and prints, per operator, how many
passed, differ by rounding, were refused with a reason, gave wrong numbers or ended in an error of our own ("internal": a crash or
a hang too), then each test that did not pass and why, and the refusals by reason. "Plain" tests are those whose inputs and outputs
are all float32, integers or bool.

A test passes if ONNX's own runner says so, with the tolerances of that test. "Rounding" is what it calls different though every
number is within the rounding error of the largest one of its result: where a sum cancels, as in a Fourier transform, ONNX's own
numbers are not better than that, and sums of 16-bit floats differ by that with the order of their terms. They do not count as
passed.

Tests run in a process of their own: one that crashes or hangs is a failure, and the rest goes on in a new one.
"""

from __future__ import annotations

import argparse
import glob
import json
import multiprocessing
import os
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt, Runner

import operators_page

_NAMES = """
    Abs Add And ArgMax Attention AveragePool BatchNormalization Cast Ceil Clip Concat Constant ConstantOfShape Conv
    ConvInteger ConvTranspose Cos CumSum DepthToSpace DequantizeLinear Div DynamicQuantizeLinear Einsum Equal Erf Exp
    Expand Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater
    GreaterOrEqual GridSample HardSigmoid HardSwish Identity If InstanceNormalization IsNaN LSTM LayerNormalization
    LeakyRelu Less LessOrEqual Log LogSoftmax MatMul MatMulInteger Max MaxPool Min Mod Mul Neg NonZero Not PRelu Pad Pow
    QuantizeLinear RandomNormalLike Range Reciprocal ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Relu Reshape Resize ScatterElements ScatterND Shape Sigmoid Sin Size Slice Softmax Softplus Split
    Sqrt Squeeze Sub Tanh Tile TopK Transpose Unsqueeze Where Xor
"""
OPERATORS = frozenset(_NAMES.split())
PLAIN = {"FLOAT", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL"}
SECONDS = 120.0  # after which a test counts as hanging

OUTCOMES = ("passed", "rounding", "refused", "wrong", "internal")

Arrays = list[Any]


@dataclass(frozen=True)
class Test:
    """A model with inputs and the outputs that are right."""

    name: str
    model: onnx.ModelProto
    data: Sequence[tuple[Arrays, Arrays]]
    rtol: float
    atol: float
    network: bool = False  # a whole one

    @property
    def operators(self) -> set[str]:
        return {node.op_type for node in self.model.graph.node}

    @property
    def operator(self) -> str:
        """The operator that is tested; models of several are counted together."""
        return next(iter(self.operators)) if len(self.operators) == 1 else "(several)"

    @property
    def plain(self) -> bool:
        values = [*self.model.graph.input, *self.model.graph.output]
        tensors = all(v.type.WhichOneof("value") == "tensor_type" for v in values)
        return tensors and {TensorProto.DataType.Name(v.type.tensor_type.elem_type) for v in values} <= PLAIN


@dataclass(frozen=True)
class Result:
    name: str
    operator: str
    plain: bool
    outcome: str  # one of OUTCOMES
    reason: str = ""


def _array(item: Any) -> Any:
    return numpy_helper.to_array(item) if isinstance(item, TensorProto) else item


def _read(path: str) -> Any:
    tensor = TensorProto()
    with open(path, "rb") as file:
        tensor.ParseFromString(file.read())
    return numpy_helper.to_array(tensor)


def _numbered(pattern: str) -> Arrays:
    count = len(glob.glob(pattern.replace("#", "*")))
    return [_read(pattern.replace("#", str(n))) for n in range(count)]


def tests(kinds: Sequence[str]) -> Iterator[Test]:
    """The tests of each kind, in the order of ONNX."""
    for kind in kinds:
        if kind == "light":
            yield from _light()
            continue
        for case in load_model_tests(kind=kind):
            if case.model is not None:
                data = [([_array(a) for a in given], [_array(a) for a in right]) for given, right in case.data_sets]
                yield Test(case.name, case.model, data, case.rtol, case.atol)
            elif case.model_dir is not None:
                folders = sorted(glob.glob(os.path.join(case.model_dir, "test_data_set*")))
                data = [(_numbered(f"{f}/input_#.pb"), _numbered(f"{f}/output_#.pb")) for f in folders]
                yield Test(case.name, onnx.load(os.path.join(case.model_dir, "model.onnx")), data, case.rtol, case.atol)


def _light() -> Iterator[Test]:
    """Whole networks with tiny generated weights; the input is the one ONNX's runner makes for them."""
    for path in sorted(glob.glob(os.path.join(DATA_DIR, "light", "*.onnx"))):
        model = onnx.load(path)
        given = {t.name for t in model.graph.initializer}
        inputs = [Runner.generate_dummy_data(v) for v in model.graph.input if v.name not in given]
        right = _numbered(path.removesuffix(".onnx") + "_output_#.pb")
        yield Test(os.path.basename(path).removesuffix(".onnx"), model, [(inputs, right)], 1e-3, 1e-6, network=True)


def run(test: Test, reference: bool) -> Result:
    """One test, in this process."""
    from tensorsmith.errors import UserError
    from tensorsmith.frontends.onnx import backend

    def result(outcome: str, reason: str = "") -> Result:
        return Result(test.name, test.operator, test.plain, outcome, reason)

    differ = ""  # how, if by rounding
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepared = backend.prepare(test.model, "CPU", reference=reference)
            for inputs, right in test.data:
                outputs = prepared.run([np.asarray(a) if isinstance(a, np.generic) else a for a in inputs])
                try:
                    Runner.assert_similar_outputs(right, outputs, test.rtol, test.atol)
                except AssertionError as e:
                    Runner.assert_similar_outputs(right, outputs, test.rtol, max(test.atol, _rounding(right)))
                    differ = _one_line(e, 160)
    except (BackendIsNotSupposedToImplementIt, UserError) as e:
        return result("refused", str(e))
    except AssertionError as e:
        return result("wrong", _one_line(e, 160))
    except Exception as e:
        return result("internal", f"{type(e).__name__}: {_one_line(e, 200)}")
    return result("rounding", differ) if differ else result("passed")


def _one_line(problem: Exception, most: int) -> str:
    return " ".join(str(problem).split())[:most]


def _rounding(right: Arrays) -> float:
    """The rounding error of the largest float among the right results."""
    floats = [a for a in right if isinstance(a, np.ndarray) and a.dtype.kind == "f" and np.isfinite(a).any()]
    return max((float(np.finfo(a.dtype).eps * np.abs(a[np.isfinite(a)]).max()) for a in floats), default=0.0)


def _worker(chosen: Sequence[Test], reference: bool, pipe: Connection) -> None:
    for test in chosen:
        pipe.send(run(test, reference))
    pipe.close()


def run_all(chosen: Sequence[Test], reference: bool) -> Iterator[Result]:
    """Every test, in processes that take over where one dies. They are forked, so the tests need not be made again."""
    context = multiprocessing.get_context("fork")
    done = 0
    while done < len(chosen):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_worker, args=(chosen[done:], reference, theirs), daemon=True)
        process.start()
        theirs.close()
        reason = ""
        while done < len(chosen) and not reason:
            try:
                if ours.poll(SECONDS):
                    yield ours.recv()
                    done += 1
                else:
                    reason = f"hangs: no answer in {SECONDS:.0f} s"
            except EOFError:
                process.join(10)
                reason = f"the process died with {process.exitcode}"
        if reason:
            test = chosen[done]
            yield Result(test.name, test.operator, test.plain, "internal", reason)
            done += 1
        process.kill()
        process.join()
        ours.close()


def report(results: Sequence[Result]) -> dict[str, Any]:
    """Prints the table, what did not pass and the reasons of the refusals; gives the figures."""
    print(f"{'operator':28}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES))
    for operator, counts in sorted(by_operator(results).items()):
        print(f"{operator:28}" + "".join(f"{counts[outcome]:10}" for outcome in OUTCOMES))
    for outcome in OUTCOMES[1:]:
        print(f"\n{outcome}:")
        for r in results:
            if r.outcome == outcome:
                print(f"  {r.name}{'' if r.plain else ' (other types)'}: {r.reason.split('; ')[0]}")
    print("\nrefusals by reason:")
    for reason, count in reasons(results).most_common():
        print(f"{count:6}  {reason}")
    figures: dict[str, Any] = {}
    for name, part in (("all", list(results)), ("plain", [r for r in results if r.plain])):
        counts = Counter(r.outcome for r in part)
        share = counts["passed"] / len(part) if part else 0.0
        figures[name] = {**counts, "tests": len(part), "share_passed": share}
        rest = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES[1:])
        print(f"\n{name}: {counts['passed']} of {len(part)} passed ({share:.1%}), {rest}")
    return figures


def by_operator(results: Sequence[Result]) -> dict[str, Counter[str]]:
    """How often each outcome was that of a test of an operator."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for r in results:
        counts[r.operator][r.outcome] += 1
    return counts


def reasons(results: Sequence[Result]) -> Counter[str]:
    """The refusals by their reasons, without the names of the test's model, node and values."""
    return Counter(_anonymous(r.reason, r.name) for r in results if r.outcome == "refused")


def _anonymous(reason: str, model: str) -> str:
    reason = reason.split("; ")[0].replace(model, "the model").replace("the model uses operators that are", "an operator is")
    reason = re.sub(r"^input \S+", "an input", reason)
    return re.sub(r"^(\w+) \w+(?=:? )", r"\1", reason) if reason[:1].isupper() else reason


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators, or parts of test names")
    parser.add_argument("--kinds", default="node,pytorch-converted,pytorch-operator")
    parser.add_argument("--all", action="store_true", help="tests of operators that are not meant to be supported, too")
    parser.add_argument("--reference", action="store_true", help="by the reference evaluator, without generated code")
    parser.add_argument("--json")
    parser.add_argument("--page", help="write the page of supported operators; with --all")
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = [t for t in tests(arguments.kinds.split(",")) if arguments.all or t.network or t.operators <= OPERATORS]
    wanted = [w for w in arguments.only.split(",") if w]
    if wanted:
        chosen = [t for t in chosen if t.operators & set(wanted) or any(w in t.name for w in wanted)]
    results = list(run_all(chosen, arguments.reference))
    figures = report(results)
    if arguments.page:
        operators = {r.operator for r in results}
        refused = {operator: reasons([r for r in results if r.operator == operator]) for operator in operators}
        with open(arguments.page, "w") as file:
            file.write(operators_page.page(by_operator(results), refused))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"figures": figures, "tests": [asdict(r) for r in results]}, file, indent=1)


if __name__ == "__main__":
    main()
