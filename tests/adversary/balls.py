"""Ball arithmetic in common: exact doubles, decisions that may stay open,
the normal tail at any distance.
"""

from flint import arb, ctx

PRECISIONS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)


def exact(x):
    """The binary double or int itself; a function gives its ball at the context's precision."""
    if isinstance(x, arb):
        return x
    if callable(x):
        return x()
    return arb(x) if isinstance(x, int) else arb(float(x))


def zero():
    return arb(0)


def one():
    return arb(1)


def sign(x):
    """-1, 0 or 1 where the ball decides, else None."""
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0 if x.is_zero() else None


def choose(x, below, at_or_above):
    """below() where x < 0, at_or_above() where x >= 0; both joined where the ball cannot tell.

    For functions that are continuous at x = 0, so that the union holds the truth.
    """
    s = sign(x)
    if s is None:
        left, right = below(), at_or_above()
        return tuple(a.union(b) for a, b in zip(left, right))
    return below() if s < 0 else at_or_above()


def tail(z):
    """P(N(0,1) > z) = erfc(z/sqrt 2)/2;
    far out e^(-z^2/2) U(1/2, 1/2, z^2/2)/(2 sqrt pi) (DLMF 7.11.5).
    """
    if z > 40:
        w = z * z / 2
        return (-w).exp() * w.hypgeom_u(arb(1) / 2, arb(1) / 2) / (2 * arb.pi().sqrt())
    if z < -40:
        return 1 - tail(-z)
    return (z / arb(2).sqrt()).erfc() / 2


def expm1(x):
    return x.expm1()


def accurate(x, bits):
    """Is the ball known to `bits` bits relative (an exact zero is)?"""
    return bool(x.is_zero()) or x.rel_accuracy_bits() >= bits


class precision:
    """`with precision(bits):` sets the working precision of python-flint."""

    def __init__(self, bits):
        self.bits = bits

    def __enter__(self):
        self.before, ctx.prec = ctx.prec, self.bits

    def __exit__(self, *_):
        ctx.prec = self.before
