"""The package's own tests. They run in a checkout, and against an installed wheel: python -m unittest discover tests."""

import unittest

import demo_kernels
import ml_dtypes
import numpy as np

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


class SiluMul(unittest.TestCase):
    def test_float32(self):
        for n in (0, 1, 1000, 1024, 70_001):
            x, gate = normal(n), normal(n)
            want = x * (gate / (1 + np.exp(-gate.astype(np.float64))))
            np.testing.assert_allclose(demo_kernels.silu_mul(x, gate), want, rtol=1e-5, atol=1e-6)

    def test_bfloat16(self):
        x, gate = normal(3000).astype(ml_dtypes.bfloat16), normal(3000).astype(ml_dtypes.bfloat16)
        x64, gate64 = x.astype(np.float64), gate.astype(np.float64)
        got = demo_kernels.silu_mul(x, gate).astype(np.float64)
        np.testing.assert_allclose(got, x64 * gate64 / (1 + np.exp(-gate64)), rtol=1e-2, atol=1e-3)


class RmsNorm(unittest.TestCase):
    def test_rows(self):
        for rows, n in ((1, 1), (7, 200), (3, 1000), (5, 3000)):
            x, weight = normal(rows, n), normal(n)
            x64 = x.astype(np.float64)
            want = x64 / np.sqrt((x64 * x64).mean(axis=1, keepdims=True) + 1e-6) * weight
            np.testing.assert_allclose(demo_kernels.rms_norm(x, weight), want, rtol=2e-5, atol=1e-5)


class Interpolate(unittest.TestCase):
    def test_against_numpy(self):
        x, table = normal(20_000), normal(33)
        want = np.interp(x, np.linspace(0, 1, 33), table)
        np.testing.assert_allclose(demo_kernels.interpolate(x, table), want, rtol=1e-4, atol=1e-5)

    def test_an_error_of_the_kernel(self):
        with self.assertRaisesRegex(Exception, "at least 2 are needed"):
            demo_kernels.interpolate(normal(4), normal(1))


if __name__ == "__main__":
    unittest.main()
