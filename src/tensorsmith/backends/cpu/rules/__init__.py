"""The rules for CPUs: ours, and Ansor's in its order. Those that ask for facts of CPUs are here, the others in `space/rules/`.

register_tile    tiles of results in registers, operands copied in loop order      rfactor    partial results for threads and lanes
"""

from tensorsmith.backends.cpu.rules.register_tile import RegisterTile
from tensorsmith.backends.cpu.rules.rfactor import AddRfactor
from tensorsmith.space.rules.alias import AliasOutput
from tensorsmith.space.rules.base import Rule
from tensorsmith.space.rules.cache_write import AddCacheWrite
from tensorsmith.space.rules.constant import ConstantTensor
from tensorsmith.space.rules.fusion import TilingWithFusion
from tensorsmith.space.rules.inline import AlwaysInline
from tensorsmith.space.rules.place import LeavePlaceOpen
from tensorsmith.space.rules.reshape import ReshapeOutput
from tensorsmith.space.rules.skip import Skip
from tensorsmith.space.rules.tiling import Tiling

#: our rules
DEFAULT: tuple[Rule, ...] = (
    AliasOutput(),
    ReshapeOutput(),
    AlwaysInline(),
    ConstantTensor(),
    AddRfactor(few_results=True),
    RegisterTile(),
    LeavePlaceOpen(),
)

#: Ansor's rules for CPUs, in its order
ANSOR: tuple[Rule, ...] = (
    AlwaysInline(),
    ConstantTensor(),
    AddRfactor(),
    AddCacheWrite(),
    TilingWithFusion(),
    Tiling(),
    Skip(),
)
