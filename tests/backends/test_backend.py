"""What a backend's record gives to the rest of the package."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.cpu.machines import target

from tensorsmith.backends import backend_of
from tensorsmith.backends.cpu.features.extract import extract
from tensorsmith.backends.cpu.prior import estimate_seconds
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower

TARGET = target()


def test_features_and_estimates_come_from_the_record() -> None:
    backend = backend_of(TARGET)
    candidate = backend.default_candidate(catalogue.get("ConvLayer-2-b1").workload(), TARGET)
    rows = backend.extract_rows([(candidate.sketch, candidate.decisions)], TARGET)
    assert rows.schema is backend.schema and rows.values.shape == (2, len(backend.schema)) and rows.candidates == 1
    (matrix,) = rows.matrices()
    alone = extract(lower(candidate), TARGET)
    assert matrix.stages == alone.stages == rows.sections[0].stages
    np.testing.assert_allclose(matrix.values, alone.values, rtol=1e-6, atol=1e-6)
    seconds = backend.estimated_seconds(rows, TARGET)
    assert seconds == pytest.approx(estimate_seconds(alone, TARGET), rel=1e-4)
    assert backend.prior_scores(rows, TARGET) == pytest.approx(-np.log2(seconds))


def test_the_explanation_comes_from_the_record() -> None:
    candidate = backend_of(TARGET).default_candidate(catalogue.get("GMM-small").workload(), TARGET)
    text = backend_of(TARGET).explain(candidate, TARGET)
    assert text.startswith("expected: ") and f"of {TARGET.vector_registers}" in text
