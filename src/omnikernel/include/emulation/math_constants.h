/* CUDA's header of this name: on the CPU its contents come with omnikernel_cuda_cpu.h, which is read first. */
#include "../omnikernel_cuda_cpu.h"
