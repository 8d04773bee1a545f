"""Records: what was measured, kept in one SQLite file that several tuners share and no crash damages.

keys      what a record is found by: workload, target, timing; the keys of candidates and structures
record    a record, its JSON form, and the validation of what a stranger wrote
schema    tables, schema version
migration the steps from older versions
names     a candidate in the names of another workload of the same computation
faults    what can go wrong with a file, as errors that say what to do
connect   opening a file
queries   the SQL that reads
store     the store: add, best, top, history, failures, similar, export, import, merge
shown     lists of records, as they are shown
lines     JSON lines
explain   why no record was found
salvage   what can still be read of a damaged file
foreign   programs that other systems measured, kept as hints
ansor     logs of TVM's auto_scheduler: their programs as candidates of ours
"""

from tensorsmith.records.ansor import read as read_ansor
from tensorsmith.records.faults import StoreError
from tensorsmith.records.keys import Timing, candidate_key, structure_key
from tensorsmith.records.lines import Counts
from tensorsmith.records.record import Record
from tensorsmith.records.salvage import recover
from tensorsmith.records.store import Store, Summary

__all__ = [
    "Counts",
    "Record",
    "Store",
    "StoreError",
    "Summary",
    "Timing",
    "candidate_key",
    "read_ansor",
    "recover",
    "structure_key",
]
