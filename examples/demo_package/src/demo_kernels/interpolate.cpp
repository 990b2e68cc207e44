#include <omnikernel.h>

// Linear interpolation in a table over [0, 1]; arguments beyond it are clamped.
void interpolate(ok::View<const float, 1> x, ok::View<const float, 1> table, ok::View<float, 1> out) {
  OK_CHECK(table.size(0) >= 2, "the table has %d entries, at least 2 are needed", (int)table.size(0));
  const int64_t last = table.size(0) - 1;
  ok::parallel_for(0, x.size(0), 4096, [&](int64_t low, int64_t high) {
    for (int64_t i = low; i < high; i++) {
      float at = (x[i] < 0.f ? 0.f : x[i] > 1.f ? 1.f : x[i]) * (float)last;
      int64_t left = (int64_t)at < last ? (int64_t)at : last - 1;
      float part = at - (float)left;
      out[i] = table[left] + part * (table[left + 1] - table[left]);
    }
  });
}
