/* A prebuilt Triton kernel of the demo package, called from plain C: no Python, no Triton, no library of ours.
 *
 *     omnikernel build examples/demo_package --out dist
 *     unzip -d dist/demo dist/demo_kernels-*.whl
 *     cc -I "$(python -c 'import omnikernel; print(omnikernel.__path__[0])')/include" examples/shipped_from_c/rms_norm.c -lm -o rms_norm
 *     ./rms_norm dist/demo/demo_kernels/_omnikernel
 */
#include <math.h>
#include <omnikernel_shipped.h>
#include <stdio.h>

enum { ROWS = 5, N = 1000 };

int main(int count, char **arguments) {
    static float x[ROWS][N], weight[N], out[ROWS][N];
    char path[4096];
    if (count < 2) return fprintf(stderr, "usage: rms_norm PACKAGE/_omnikernel [LEVEL]\n"), 2;
    snprintf(path, sizeof path, "%s/%s/kernels.rms_norm.so", arguments[1], count > 2 ? arguments[2] : ok_shipped_level());
    void *library = dlopen(path, RTLD_NOW);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    const ok_shipped_kernel *kernel = ok_shipped_find(library, "*fp32, *fp32, *fp32, i32, fp32", "BLOCK=1024");
    if (!kernel) return fprintf(stderr, "%s has no such form\n", path), 1;

    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < N; i++) x[r][i] = (float)((r * 31 + i * 17) % 101) / 50.f - 1.f;
    for (int i = 0; i < N; i++) weight[i] = 1.f + (float)i / N;
    const uint64_t slots[] = {ok_pointer(x), ok_pointer(weight), ok_pointer(out), ok_int(N), ok_float(1e-6f)};
    int32_t status = ok_shipped_run(kernel, slots, ROWS, 1, 1);
    if (status != 0) return fprintf(stderr, "the kernel failed: %d\n", status), 1;

    double worst = 0;
    for (int r = 0; r < ROWS; r++) {
        double squares = 0;
        for (int i = 0; i < N; i++) squares += (double)x[r][i] * x[r][i];
        for (int i = 0; i < N; i++) {
            double want = x[r][i] / sqrt(squares / N + 1e-6) * weight[i];
            worst = fmax(worst, fabs(out[r][i] - want));
        }
    }
    printf("%s: %s(%s; %s), largest error %.1e\n", path, kernel->name, kernel->signature, kernel->constants, worst);
    return worst < 1e-5 ? 0 : 1;
}
