"""What a journal teaches about programs in general: the cost model that every search of a run begins with.

Records are learned on top of what the package's model knows (`learn/pretrained/`). The model is made when the first search begins,
and anew when the run has added twice as much as it had then; all searches begin with it, and each goes on learning by itself.
"""

from __future__ import annotations

from tensorsmith.lang.workload import Workload
from tensorsmith.learn.models.model import CostModel
from tensorsmith.search.transfer import Taught, Teaching, learn
from tensorsmith.tuning.history.journal import Journal
from tensorsmith.tuning.options import HowMeasured, Plugins

_WORKLOADS = 12  # that are learned from, those tried last
_MOST = 144  # trials of them: some tenths of a second
_LEAST = 32  # trials from which on something general can be learned


class Experience:
    """Of one run: its journal, and the model whose forks its searches have."""

    def __init__(self, journal: Journal, measured: HowMeasured, plugins: Plugins) -> None:
        self._journal, self._measured, self._plugins = journal, measured, plugins
        self._taught: Taught | None = None
        self._next = 0  # trials of this run from which on it is worth while to learn anew

    def model_for(self, workload: Workload, seed: int) -> CostModel:
        """The model to begin the search for a workload with."""
        taught = self.taught()
        found = None if taught is None else taught.model_for(workload, seed)
        return self._plugins.model.fork(seed) if found is None else found

    def taught(self) -> Taught | None:
        """What is known by now; None if that is too little, or if there is no need of it: the user's model is ready as it is."""
        how = self._plugins.policy.transfer
        if not how or (self._plugins.model.ready() and not self._plugins.pretrained):
            return None
        teaching = how if isinstance(how, Teaching) else Teaching(learn, _WORKLOADS, _MOST, _LEAST)
        journal, measured = self._journal, self._measured
        if journal.added >= self._next:
            self._next = max(teaching.least, 2 * journal.added)
            trials = [r.trial for r in journal.sample(measured.target, measured.timing, teaching.workloads, teaching.most)]
            if len(trials) >= teaching.least:
                self._taught = teaching.learn(trials, measured.target, self._plugins.model)
        return self._taught
