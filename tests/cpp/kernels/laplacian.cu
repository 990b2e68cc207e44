// A 3-D grid of 3-D blocks over views.
#include <omnikernel.h>
using Volume = ok::View<double, 3>;

__global__ void laplacian(ok::View<const double, 3> u, Volume out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  const int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x < 1 || y < 1 || z < 1 || x >= u.size(2) - 1 || y >= u.size(1) - 1 || z >= u.size(0) - 1) return;
  out(z, y, x) = u(z, y, x - 1) + u(z, y, x + 1) + u(z, y - 1, x) + u(z, y + 1, x) + u(z - 1, y, x) + u(z + 1, y, x)
               - 6.0 * u[z][y][x];
}
