// Words of OpenCL C, CUDA C, HIP and Metal, as far as our kernels use them, for a compiler of plain C++: it checks grammar and names.
// Nothing of this computes.
#include <cmath>
#include <cstdint>
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned long ulong;
struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
struct place { int x; };
#if defined(AS_OPENCL)
#define __kernel
#define __global
#define __local static
#define restrict __restrict__
#define CLK_LOCAL_MEM_FENCE 0
void barrier(int);
int get_group_id(int), get_local_id(int);
template <class T> int2 vload2(int, T);
template <class T> int4 vload4(int, T);
template <class T> void vstore2(int2, int, T);
template <class T> void vstore4(int4, int, T);
#define reqd_work_group_size(...) unused
#elif defined(AS_CUDA)
#define __global__
#define __device__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
extern place blockIdx, threadIdx;
void __syncthreads();
#else
#define kernel
#define device
#define threadgroup
namespace metal {
enum class mem_flags { mem_threadgroup };
void threadgroup_barrier(mem_flags);
}
using namespace metal;
#endif
