"""The parts of a tuning run: one task that is tuned step by step, its budget, its journal, and what is said about it."""
