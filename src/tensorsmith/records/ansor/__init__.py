"""Records of TVM's auto_scheduler (Ansor), and their programs as candidates of our space.

steps        lines of steps, checked; what differs from record to record taken out
definitions  what workload keys stand for; `define` adds a user's
state        stages, iterators and attach points while steps are replayed
extents      how often loops run
placing      the sketch and the decisions that have those loops
target       kinds of machines by TVM's names
log          reading a file: `read(path) -> Log`
check        placed programs, lowered, compared with what the steps describe
known        definitions by the names of functions
layers       definitions of layer functions
networks     those of tasks that are known by a hash
"""

from tensorsmith.records.ansor.definitions import define, forget
from tensorsmith.records.ansor.log import Log, Record, Task, foreign, read

__all__ = ["Log", "Record", "Task", "define", "foreign", "forget", "read"]
