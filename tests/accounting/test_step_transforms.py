"""The transforms of batches that are cut and of replaced records: against quadrature to 25 digits,
on the real axis and along a line, with the bounds that certificates take from them.
"""

import numpy as np
import pytest
from mpmath import mp, mpc, mpf

from jaxpriv.composition.sampled_replaced import ReplacedGaussianTransform
from jaxpriv.composition.sampled_told import CutGaussianTransform
from jaxpriv.tradeoff.cut_batches import CutGaussian


def loss(mu, rate, z):
    return mp.log(1 - rate + rate * mp.exp(mu * z - mu * mu / 2))


def integral(function):
    return mp.quad(lambda z: function(z) * mp.npdf(z), [-16, -8, -3, 0, 3, 8, 16])


def replaced(mu, rate, t):
    """E e^(l(z) + t (l(z) - l(-z)))."""
    def part(z):
        up, down = loss(mu, rate, z), loss(mu, rate, -z)
        return mp.exp(up + t * (up - down))

    return integral(part)


def cut(pair, reverse, t):
    """The mean over both ways of E e^((1+t) l), or e^(-t l)."""
    power = -t if reverse else 1 + t

    def way(*parameters):
        mu, rate, weight = (mpf(float(value)) for value in parameters)
        return mp.exp(weight) * integral(lambda z: mp.exp(power * loss(mu, rate, z)))

    return (way(pair.mu, pair.rate, pair.log_whole)
            + way(2 * pair.mu, pair.kept, pair.log_cut))


def check(transform, truth, c):
    """K to rounding; M(c+iy)/M(c) at the first frequencies; what bounds its modulus; K's slope."""
    tilt = transform.tilted(np.array([c]))
    with mp.workdps(25):
        at = truth(mpf(float(c)))
        np.testing.assert_allclose(tilt.value, [float(mp.log(at))], rtol=1e-11, atol=1e-15)
        spacing = 0.3
        line = tilt.line(np.array([spacing]))
        _, (log_size, angle) = line.advance(line.start())
        decay = tilt.decay(np.inf)
        for k in (0, 9):
            y = (k + 0.5) * spacing
            ratio = truth(mpc(float(c), y)) / at
            error = abs(mp.exp(mpc(float(log_size[k, 0]), float(angle[k, 0]))) - ratio)
            assert error < 1e-12 + float(tilt.line_error()[0])
            assert tilt.log_decay(decay, np.array([y]))[0] >= float(mp.log(abs(ratio))) - 1e-12
        step = mpf("1e-6")
        slope = (mp.log(truth(c + step)) - mp.log(truth(c - step))) / (2 * step)
    value, first, second = transform.cumulants(np.array([c]))
    np.testing.assert_allclose(value, tilt.value, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(first, [float(slope)], rtol=1e-7, atol=1e-10)
    assert second[0] > 0
    assert tilt.line_error()[0] < 1e-10


@pytest.mark.parametrize(("mu", "rate"), [
    (1.0, 0.05), *(pytest.param(*p, marks=pytest.mark.slow) for p in ((2.0, 0.6), (0.3, 1e-3)))
])
@pytest.mark.parametrize("c", [2.5, -0.4])
def test_replaced(mu, rate, c):
    transform = ReplacedGaussianTransform(np.array([mu]), np.array([rate]))
    check(transform, lambda t: replaced(mpf(mu), mpf(rate), t), c)


@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("c", [2.5, -0.4])
def test_cut(reverse, c):
    pair = CutGaussian.of(np.float64(0.8), np.float64(0.05), 200, 12)
    own = pair.mu, pair.rate, pair.kept, pair.log_whole, pair.log_cut, pair.doubt
    transform = CutGaussianTransform(*(np.array([part]) for part in own), np.array([reverse]))
    check(transform, lambda t: cut(pair, reverse, t), c)
