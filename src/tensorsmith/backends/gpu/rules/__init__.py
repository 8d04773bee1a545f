"""The rules for GPUs: Ansor's in its order, and ours.

tiling       blocks, virtual threads and threads; operands in shared memory, results in registers
reduction    reductions that the threads of a block share            simple    inlining, constants, a thread for each result
split        long reductions over blocks                             matrix    products by matrix instructions
nests        the nests that they give
"""

from tensorsmith.backends.gpu.rules.matrix import MatrixInstructions
from tensorsmith.backends.gpu.rules.reduction import CrossThreadReduction
from tensorsmith.backends.gpu.rules.simple import ConstantTensorOnGpu, InlineAlways, OneThreadEach, SpecialPlace
from tensorsmith.backends.gpu.rules.split import SplitReduction
from tensorsmith.backends.gpu.rules.tiling import CacheInRegisters, GpuTiling
from tensorsmith.space.rules.base import Rule

#: Ansor's rules for GPUs, in its order; fetching of operands belongs to the tiling here, because inputs are no stages
ANSOR: tuple[Rule, ...] = (
    SpecialPlace(),
    ConstantTensorOnGpu(),
    InlineAlways(),
    CrossThreadReduction(fused=True),
    CacheInRegisters(),
    GpuTiling(),
    OneThreadEach(),
)

#: ours
DEFAULT: tuple[Rule, ...] = (
    SpecialPlace(),
    ConstantTensorOnGpu(),
    InlineAlways(),
    SplitReduction(),
    CrossThreadReduction(),
    CacheInRegisters(),
    MatrixInstructions(),
    GpuTiling(ours=True),
    OneThreadEach(),
)
