"""Features of candidates, the analytic prior, explanations: what the cost model and the search know of a program before it runs."""

from tensorsmith.learn.explain import explain
from tensorsmith.learn.features.batch import FeatureRows, extract_groups, extract_rows
from tensorsmith.learn.features.extract import FeatureMatrix, extract, extract_decisions
from tensorsmith.learn.features.schema import FEATURES, SCHEMA_VERSION
from tensorsmith.learn.models.machine import Machine
from tensorsmith.learn.models.prior import Estimate, estimate, estimate_seconds

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
