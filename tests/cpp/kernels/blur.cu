// Weights in constant memory, a tile with a border in shared memory, a 2-D block, macros with arguments, a small struct.
#define R 2
#define SIDE 16
#define AT(array, row, column, pitch) ((array)[(row) * (pitch) + (column)])

__constant__ float weights[2 * R + 1] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};

struct Image {
  int height, width;
  __device__ bool holds(int y, int x) const { return y >= 0 && x >= 0 && y < height && x < width; }
};
__host__ __device__ static inline int within(int v, int low, int high) { return v < low ? low : v > high ? high : v; }

extern "C" __global__ void blur(const float *in, float *out, int height, int width) {
  __shared__ float tile[SIDE + 2 * R][SIDE + 2 * R + 1];
  const Image image{height, width};
  const int y0 = (int)(blockIdx.y * SIDE) - R, x0 = (int)(blockIdx.x * SIDE) - R;
  for (int y = threadIdx.y; y < SIDE + 2 * R; y += blockDim.y)
    for (int x = threadIdx.x; x < SIDE + 2 * R; x += blockDim.x)
      tile[y][x] = AT(in, within(y0 + y, 0, height - 1), within(x0 + x, 0, width - 1), width);
  __syncthreads();
  const int y = blockIdx.y * SIDE + threadIdx.y, x = blockIdx.x * SIDE + threadIdx.x;
  if (!image.holds(y, x)) return;
  float total = 0.f;
#pragma unroll
  for (int dy = -R; dy <= R; ++dy) {
    float line = 0.f;
    for (int dx = -R; dx <= R; ++dx) line += weights[R + dx] * tile[threadIdx.y + R + dy][threadIdx.x + R + dx];
    total += weights[R + dy] * line;
  }
  AT(out, y, x, width) = total;
}
