"""Nothing that a file says is ignored: every attribute and input of every operator and version counts or is refused."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.frontends.onnx_nodes import model_of, random
from tests.frontends.onnx_samples import IMAGE, Sample, samples

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.chance import RANDOM
from tensorsmith.frontends.onnx.importer import load_onnx
from tensorsmith.frontends.onnx.table import find_handler, table
from tensorsmith.frontends.onnx.unread import MEANINGLESS

Types = onnx.defs.OpSchema.AttrType


@functools.cache
def history() -> dict[str, list[Any]]:
    """The schemas of every standard operator, from the oldest on."""
    found: dict[str, list[Any]] = {}
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda s: s.since_version):
        if schema.domain == "":
            found.setdefault(schema.name, []).append(schema)
    return found


def cases() -> list[tuple[str, int]]:
    """Each operator of the table at each version in which ONNX changed it and the table has it."""
    kinds = [kind for domain, kind in sorted(table()) if not domain and kind not in RANDOM]
    versions = {kind: [schema.since_version for schema in history()[kind]] for kind in kinds}
    return [(kind, version) for kind in kinds for version in versions[kind] if find_handler(kind, version) is not None]


def imported(kind: str, version: int, s: Sample) -> Any:
    model, _ = model_of(kind, s.arrays, s.outputs, version, s.constants, **s.attributes)
    return load_onnx(model)


def meaning(graph: Any) -> Any:
    """All that a graph says, in a form that can be compared."""
    nodes = [(n.operator, n.inputs, n.outputs, sorted(n.attributes.items())) for n in graph.nodes]
    constants = {name: (a.dtype, a.shape, a.tobytes()) for name, a in graph.constants.items()}
    return nodes, constants, graph.outputs


def other_values(attribute: Any, given: Any) -> list[Any]:
    """Values of an attribute other than the one given, or its default, one of which at least ought to count."""
    pair = [[2, 1], [1], [0, 1, 3, 2], [1, 1, 1, 1], [2, 1, 1, 1], [4, 24], [0, 1], [13, 13]]
    values: dict[Any, list[Any]] = {
        Types.INT: [0, 1, 2, 3, 10, 11],
        Types.FLOAT: [0.25, 0.75],
        Types.STRING: ["no such word"],
        Types.INTS: pair,
        Types.FLOATS: [[0.25, 0.25], [0.25]],
        Types.STRINGS: [["no such word"], ["Relu"], ["Relu", "Relu"], ["Relu", "Relu", "Relu"]],
        Types.TENSOR: [helper.make_tensor("t", TensorProto.FLOAT, [1], [7.0])],
        Types.GRAPH: [helper.make_graph([], "empty", [], [])],
        Types.SPARSE_TENSOR: [
            helper.make_sparse_tensor(helper.make_tensor("v", 1, [1], [7.0]), helper.make_tensor("i", 7, [1], [0]), [2])
        ],
    }
    default = attribute.default_value
    usual = helper.get_attribute_value(default) if given is None and default.type else given
    return [v for v in values[attribute.type] if v != usual]


def test_every_operator_of_the_table_is_covered() -> None:
    assert {kind for kind, _ in cases()} | set(RANDOM) == {kind for domain, kind in table() if not domain}


@pytest.mark.parametrize(("kind", "version"), cases())
def test_every_attribute_counts_or_is_refused(kind: str, version: int) -> None:
    attributes = {name: a for schema in history()[kind] for name, a in schema.attributes.items()}
    for name, attribute in attributes.items():
        if (kind, name) not in MEANINGLESS and ("*", name) not in MEANINGLESS:
            assert any(heeds(kind, version, plain, name, attribute) for plain in samples(kind, version)), f"{name} is ignored"


def heeds(kind: str, version: int, plain: Sample, name: str, attribute: Any) -> bool:
    """Whether some other value of an attribute gives another graph, or is refused by name, or all are refused."""
    before = meaning(imported(kind, version, plain))
    same = False
    for value in other_values(attribute, plain.attributes.get(name)):
        try:
            after = meaning(imported(kind, version, replace(plain, attributes={**plain.attributes, name: value})))
        except UserError as refusal:
            if name in str(refusal):
                return True
            continue
        if after != before:
            return True
        same = True
    return not same


@pytest.mark.parametrize(("kind", "version"), cases())
def test_every_attribute_may_have_its_default(kind: str, version: int) -> None:
    """Exporters write out what they need not write: that changes nothing."""
    schema = [s for s in history()[kind] if s.since_version <= version][-1]
    for plain in samples(kind, version):
        before = meaning(imported(kind, version, plain))
        for name, attribute in schema.attributes.items():
            if name not in plain.attributes and attribute.default_value.type:
                given = helper.get_attribute_value(attribute.default_value)
                after = meaning(imported(kind, version, replace(plain, attributes={**plain.attributes, name: given})))
                if attribute.type == Types.FLOAT:  # the file has 32 bits of what is written in 64 here
                    assert [node[:3] for node in after[0]] == [node[:3] for node in before[0]], name
                else:
                    assert after == before, name


#: attributes that say nothing beside what the rest of the node says, each with a node like that
WITHOUT_EFFECT: list[tuple[str, int, Sample, dict[str, Any]]] = [
    ("ReduceSum", 13, samples("ReduceSum", 13)[0], {"noop_with_empty_axes": 1}),
    ("ReduceMean", 18, samples("ReduceMean", 18)[0], {"noop_with_empty_axes": 1}),
    ("ReduceMax", 20, samples("ReduceMax", 20)[0], {"noop_with_empty_axes": 1}),
    ("Resize", 18, samples("Resize", 18)[0], {"keep_aspect_ratio_policy": "not_larger"}),
    ("Split", 18, Sample([IMAGE, np.array([1, 3])], (1,), {"axis": 1}, 2), {"num_outputs": 2}),
    ("Attention", 23, samples("Attention", 23)[0], {"q_num_heads": 2, "kv_num_heads": 2}),
    ("Add", 6, Sample([IMAGE, -IMAGE]), {"axis": 1, "broadcast": 0}),
    ("DequantizeLinear", 21, Sample([IMAGE.astype("u1"), np.array(0.5, "f4")], (0, 1)), {"block_size": 2, "axis": 3}),
    ("LSTM", 14, samples("LSTM", 14)[0], {"activation_alpha": [0.0, 0.0, 0.0], "activation_beta": [0.0, 0.0, 0.0]}),
    ("MaxPool", 12, Sample([IMAGE], (), {"kernel_shape": [2, 2]}), {"storage_order": 1}),
    ("TopK", 11, samples("TopK", 11)[0], {"sorted": 0}),
    ("BatchNormalization", 15, samples("BatchNormalization", 15)[0], {"momentum": 0.5}),
    ("Conv", 11, Sample([IMAGE, random(4, 4, 3, 3)], (1,), {"auto_pad": "VALID"}), {"kernel_shape": [3, 3]}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "version", "plain", "more"), WITHOUT_EFFECT, ids=lambda v: v if isinstance(v, str) else "")
def test_attributes_without_effect_are_taken(kind: str, version: int, plain: Sample, more: dict[str, Any]) -> None:
    both = replace(plain, attributes={**plain.attributes, **more})
    assert meaning(imported(kind, version, both)) == meaning(imported(kind, version, plain))


def test_outputs_that_nobody_reads_are_taken() -> None:
    """Exporters list the results that only training has."""
    plain = samples("BatchNormalization", 9)[0]
    model, _ = model_of("BatchNormalization", plain.arrays, 5, 9)
    with pytest.raises(UserError, match="BatchNormalization node has 5 outputs; only 1 can be read"):
        load_onnx(model)
    del model.graph.output[1:]
    assert meaning(load_onnx(model)) == meaning(imported("BatchNormalization", 9, plain))


@pytest.mark.parametrize(("kind", "version"), cases())
def test_what_an_operator_does_not_have_is_refused(kind: str, version: int) -> None:
    plain = samples(kind, version)[0]
    with pytest.raises(UserError, match="no_such_attribute"):
        imported(kind, version, replace(plain, attributes={**plain.attributes, "no_such_attribute": 1}))


@pytest.mark.parametrize(("kind", "version"), cases())
def test_every_input_counts_or_is_refused(kind: str, version: int) -> None:
    """The optional inputs that the sample leaves out, one at a time, and one more than the operator has."""
    plain = samples(kind, version)[0]
    last = max(schema.max_input for schema in history()[kind])
    count = len(plain.arrays)
    for n in [count] if last > 1000 else range(count, max(last, count) + 1):
        more = replace(plain, arrays=[*plain.arrays, *[None] * (n - count), IMAGE])
        try:
            graph = imported(kind, version, more)
        except UserError:
            continue
        assert f"x{n}" in {name for node in graph.nodes for name in node.inputs}, f"input {n} is ignored"


def test_the_reasons_are_of_operators_of_the_table() -> None:
    kinds = {kind for domain, kind in table() if not domain}
    for (kind, name), reason in MEANINGLESS.items():
        schemas = [s for k in ([kind] if kind != "*" else kinds) for s in history()[k]]
        assert any(name in s.attributes for s in schemas), f"{kind} has no {name}"
        assert reason
    assert np.all([kind in kinds for kind, _ in MEANINGLESS if kind != "*"])


@pytest.mark.parametrize("schema", onnx.defs.get_all_schemas(), ids=lambda s: s.name)
def test_bodies_read_the_attributes_of_their_operators(schema: Any) -> None:
    """An operator that ONNX defines by a fixed body: the importer relies on it that no attribute is left out there."""
    read = {a.ref_attr_name for node in schema.function_body.node for a in node.attribute}
    if schema.has_function and ("", schema.name) not in table():
        assert read >= set(schema.attributes)
