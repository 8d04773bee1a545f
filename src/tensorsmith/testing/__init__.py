"""Conformance suites: what a plug-in's author runs to see whether it keeps the promises of its protocol.

    from tensorsmith.testing import check_policy

    def test_my_policy():
        check_policy(MyPolicy)

Each raises `BrokenPromise`, an `AssertionError` that says which promise was broken and how. Our own plug-ins pass them too.
"""

from tensorsmith.testing.backend import check_backend
from tensorsmith.testing.cost_model import check_cost_model
from tensorsmith.testing.policy import check_policy
from tensorsmith.testing.promise import BrokenPromise
from tensorsmith.testing.rule import check_rule
from tensorsmith.testing.runner import check_runner

__all__ = ["BrokenPromise", "check_backend", "check_cost_model", "check_policy", "check_rule", "check_runner"]
