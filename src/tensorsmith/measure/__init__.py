"""Measurement: candidates in, trials out, in worker processes that may die without harm."""

from tensorsmith.measure.limits import Limits
from tensorsmith.measure.measurer import Measurer
from tensorsmith.measure.times import Times
from tensorsmith.measure.workshop import Workshop

__all__ = ["Limits", "Measurer", "Times", "Workshop"]
