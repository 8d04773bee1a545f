"""Resize, Upsample and GridSample against ONNX's reference and ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from tests.frontends.onnx_nodes import by_onnxruntime, by_reference, check, kinds, model_of, random

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.importer import load_onnx

COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
SCALES = [[1, 1, 2, 2], [1, 1, 0.6, 0.5], [1, 1, 1.7, 0.4]]


def resize(x, scales=None, sizes=None, roi=None, peer=by_reference, opset=19, **options):
    given = [x, roi, None if scales is None else np.array(scales, "f4"), None if sizes is None else np.array(sizes, "i8")]
    while given[-1] is None:
        given.pop()
    return check("Resize", given, peer=peer, opset=opset, constants=(1, 2, 3), **options)


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_nearest(scales, coordinates, nearest):
    resize(random(1, 2, 5, 6), scales, mode="nearest", coordinate_transformation_mode=coordinates, nearest_mode=nearest)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_interpolation(scales, coordinates, mode):
    resize(random(1, 2, 5, 6), scales, mode=mode, coordinate_transformation_mode=coordinates)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("sizes", [[1, 2, 9, 3], [1, 2, 1, 1], [1, 2, 5, 13], [2, 3, 4, 4]], ids=str)
def test_sizes(mode, sizes):
    resize(random(1, 2, 5, 6), sizes=sizes, mode=mode)
    # one element is taken from place 0, says the standard; its reference from -0.5
    peer = by_onnxruntime if 1 in sizes[2:] else by_reference
    resize(random(1, 2, 5, 6), sizes=sizes, mode=mode, coordinate_transformation_mode="pytorch_half_pixel", peer=peer)


@pytest.mark.parametrize("peer", [by_reference, by_onnxruntime])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(("shape", "scales"), [((2, 3, 7), [1, 1, 2]), ((1, 2, 3, 4, 5), [1, 1, 2, 2, 2]), ((5, 6), [1.5, 2])])
def test_other_ranks(shape, scales, mode, peer):
    resize(random(*shape), scales, mode=mode, peer=peer)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_antialias_and_exclude_outside(scales, exclude, mode):
    for antialias in (0, 1):
        resize(random(1, 2, 5, 6), scales, mode=mode, antialias=antialias, exclude_outside=exclude, cubic_coeff_a=-0.5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crop(mode):
    roi = np.array([0, 0, 0.2, -0.3, 1, 1, 0.8, 1.2], "f4")
    options = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    resize(random(1, 2, 5, 6), sizes=[1, 2, 7, 9], roi=roi, **options)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_axes_and_aspect_ratio(policy):
    resize(random(1, 2, 5, 6), sizes=[9, 7], axes=[2, 3], mode="linear", keep_aspect_ratio_policy=policy)
    resize(random(1, 2, 5, 6), scales=[2, 0.5], axes=[3, 2], mode="nearest")


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_integers_are_rounded(mode):
    x = np.random.default_rng(0).integers(0, 255, (1, 2, 5, 6)).astype("u1")
    resize(x, [1, 1, 1.7, 2], mode=mode)


@pytest.mark.parametrize("opset", [10, 11, 13, 18])
@pytest.mark.parametrize("scales", [[1, 1, 2, 2], [1, 1, 0.5, 0.5], [1, 1, 3, 1.5]], ids=str)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_versions(mode, scales, opset):
    arrays = [random(1, 2, 6, 4), np.array(scales, "f4")]
    if opset > 10:
        arrays.insert(1, np.zeros(0, "f4"))
    check("Resize", arrays, opset=opset, constants=(1, 2), mode=mode)


def test_sizes_are_rounded_in_single_precision():
    graph = resize(random(1, 2, 10, 6), [1, 1, 1.3, 1], mode="linear", peer=by_onnxruntime)
    assert graph.values[graph.outputs[0][1]].shape == (1, 2, 13, 6)


def test_half_pixels_as_in_version_11():
    arrays = [random(1, 2, 6, 4), np.zeros(0, "f4"), np.array([1, 1, 2, 0.5], "f4")]
    options = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "mode": "nearest", "nearest_mode": "floor"}
    check("Resize", arrays, opset=11, constants=(1, 2), **options)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(mode):
    scales = [1.0, 1.0, 2.0, 3.0]
    check("Upsample", [random(1, 2, 3, 4), np.array(scales, "f4")], opset=9, constants=(1,), mode=mode)
    check("Upsample", [random(1, 2, 3, 4)], opset=8, mode=mode, scales=scales)


def test_whole_factors_need_no_table():
    options = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    assert kinds(resize(random(1, 2, 5, 6), [1, 1, 2, 2], **options)) == ["transpose", "repeat", "repeat", "transpose"]
    assert kinds(resize(random(1, 2, 6, 6), [1, 1, 0.5, 1], **options)) == ["transpose", "slice", "transpose"]
    assert kinds(resize(random(1, 2, 6, 6), [1, 1, 1, 1], **options)) == ["transpose", "transpose"]


@pytest.mark.parametrize(
    ("scales", "options"),
    [
        ([1, 1, 2, 2], {"mode": "linear"}),
        ([1, 1, 1.7, 0.6], {"mode": "cubic"}),
        ([1, 1, 2, 2], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        ([1, 1, 1.7, 0.6], {"mode": "nearest"}),
    ],
    ids=str,
)
def test_generated_code(scales, options):
    resize(random(1, 9, 5, 6), scales, compiled=True, **options)


def test_refusals():
    x = random(1, 2, 5, 6)
    for arrays, attributes, message in [
        ([x, None, np.array([1, 1, 2], "f4")], {}, "scales has 3 numbers; expected 4"),
        ([x, None, None, np.array([1, 2], "i8")], {}, "sizes has 2 numbers"),
        ([x], {}, "neither scales nor sizes"),
        ([x, None, np.array([1, 1, 2, 2], "f4")], {"mode": "area"}, "mode is 'area'"),
        ([x, None, np.array([1, 1, 0.01, 2], "f4")], {}, "nothing would be left"),
    ]:
        model, _ = model_of("Resize", arrays, constants=(1, 2, 3), **attributes)
        with pytest.raises(UserError, match=message):
            load_onnx(model)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample(mode, border, corners):
    x, grid = random(2, 3, 5, 6), random(2, 4, 3, 2, seed=1) * 1.6
    attributes = {"mode": mode, "padding_mode": border, "align_corners": corners}
    check("GridSample", [x, grid], opset=20, **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_grid_sample_of_volumes(mode):
    x, grid = random(1, 2, 3, 4, 5), random(1, 2, 3, 4, 3, seed=1) * 1.3
    for border in ("zeros", "border", "reflection"):
        check("GridSample", [x, grid], opset=20, mode=mode, padding_mode=border)


def test_old_names_of_the_modes():
    x, grid = random(1, 2, 5, 6), random(1, 4, 3, 2, seed=1)
    check("GridSample", [x, grid], opset=16, mode="bilinear")
    check("GridSample", [x, grid], opset=16, mode="bicubic", align_corners=1)


@pytest.mark.parametrize(("mode", "border"), [("linear", "zeros"), ("nearest", "border"), ("linear", "reflection")])
def test_generated_code_of_grid_sample(mode, border):
    x, grid = random(1, 9, 5, 6), random(1, 4, 3, 2, seed=1) * 1.5
    check("GridSample", [x, grid], opset=20, compiled=True, mode=mode, padding_mode=border)


REGIONS = np.array([[0, 0, 9, 9], [2.5, 1, 4, 8], [-3, -2, 1, 2], [6, 6, 14, 14], [3, 3, 3, 3]], "f4")  # some lie partly outside


@pytest.mark.parametrize("attributes", [{}, {"spatial_scale": 0.5}, {"coordinate_transformation_mode": "output_half_pixel"}])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions(mode: str, attributes: dict) -> None:
    arrays = [np.abs(random(2, 3, 10, 11)), REGIONS, np.array([0, 1, 1, 0, 1])]
    size = {"output_height": 3, "output_width": 4, "sampling_ratio": 2}
    check("RoiAlign", arrays, by_reference, compiled=True, opset=16, mode=mode, **size, **attributes)
    check("RoiAlign", arrays, by_onnxruntime, opset=10, **size, **{k: v for k, v in attributes.items() if k == "spatial_scale"})


def test_regions_with_as_many_samples_as_they_are_large_are_refused() -> None:
    with pytest.raises(UserError, match="sampling_ratio is 0"):
        load_onnx(model_of("RoiAlign", [random(1, 1, 4, 4), REGIONS[:1], np.array([0])], opset=16)[0])
