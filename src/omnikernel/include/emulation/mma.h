#error "<mma.h>: tensor-core intrinsics are not emulated on the CPU"
 
