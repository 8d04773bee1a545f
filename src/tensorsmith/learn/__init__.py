"""Features of candidates, the analytic prior, explanations: what the cost model and the search know of a program before it runs."""

from tensorsmith.backends.cpu.explain import explain
from tensorsmith.backends.cpu.features.batch import FeatureRows, extract_groups, extract_rows
from tensorsmith.backends.cpu.features.extract import FeatureMatrix, extract, extract_decisions
from tensorsmith.backends.cpu.features.schema import FEATURES, SCHEMA_VERSION
from tensorsmith.backends.cpu.prior import Estimate, estimate, estimate_seconds
from tensorsmith.backends.cpu.rates import Machine

__all__ = [
    "FEATURES",
    "SCHEMA_VERSION",
    "Estimate",
    "FeatureMatrix",
    "FeatureRows",
    "Machine",
    "estimate",
    "estimate_seconds",
    "explain",
    "extract",
    "extract_decisions",
    "extract_groups",
    "extract_rows",
]
