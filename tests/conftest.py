"""Settings of all tests: no verdict of theirs depends on the clock, for the machine may be busy with something else."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("clockless", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("clockless")
