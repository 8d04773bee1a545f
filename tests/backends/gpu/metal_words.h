// Words of the Metal Shading Language, as far as our kernels use them, for a compiler of C++ for OpenCL, which has scopes of memory
// too: it checks grammar, names, types, and that no pointer goes from one scope to another. Nothing of this computes.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define device __global
#define threadgroup __local
#define thread __private
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned long ulong;
typedef int int2 __attribute__((ext_vector_type(2)));
typedef int int4 __attribute__((ext_vector_type(4)));
namespace metal {
enum class mem_flags { mem_threadgroup };
void threadgroup_barrier(mem_flags flags);
template <class T, class U> T as_type(U value);
float exp(float), log(float), sqrt(float), rsqrt(float), tanh(float), sin(float), cos(float), floor(float), ceil(float), rint(float);
float fabs(float), fmod(float, float), pow(float, float), fma(float, float, float);
}
