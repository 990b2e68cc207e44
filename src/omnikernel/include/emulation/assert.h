/* In place of the C library's: a failed assert of a kernel is an exception in Python, not the end of the process. */
#include "../omnikernel_cuda_cpu.h"
