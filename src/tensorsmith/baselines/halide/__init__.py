"""Halide's auto-scheduler: beam search over stages (`policy.py`) and its cost model (`model.py`)."""
