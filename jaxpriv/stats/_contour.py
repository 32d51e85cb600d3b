"""The (noncentral) chi-square law as one contour integral: the kernel below `chi2` and `ncx2`.

With M(t) = (1-2t)^(-d/2) exp(nc t/(1-2t)) the moment generating function and z = 1-2t,
Bromwich's inversion reads

    J[g] = (1/2 pi i) int exp(phi(z)) g(z) dz,
    phi(z) = -(d/2) ln z + (x/2)(z-1) - (nc/2)(1-1/z),

    sf = -J[1/(z-1)] (contour left of z = 1),   cdf = +J[1/(z-1)] (right of it),   pdf = J[1]/2,

and because phi is *linear* in (x, d, nc) at fixed z, a derivative only multiplies the integrand:

    d/dx: (z-1)/2        d/dd: -ln(z)/2        d/dnc: -(1-1/z)/2.

So d sf/dx = -J[1]/2, d sf/dnc = J[1/z]/2 (the density with d+2 degrees) and
d sf/dd = J[ln z/(z-1)]/2: no pole is left in any derivative, every one is a positive integral at
the saddle, and nothing cancels.

The contour. Take the parabola z = z0 (1+iu)^2 through the saddle of the law with d+a degrees of
freedom, z0 = (d' + sqrt(d'^2 + 4 nc x))/(2x), d' = d+a. (The shift a is what Weideman and Trefethen
do for the Laplace transform: for small d the integrand decays slowly along its own saddle's
contour; a little to the right it decays fast and loses a digit at most; in float32, where a digit
counts, it is smaller.) With b = nc/z0, w = u^2, q = 1+w, the exponent along it is

    Re = -(d/2)(log q + w) - (b/2) w(4+3w+w^2)/q^2 - (a/2) w
    Im =  d (u - arctan u) + b u w (2+w)/q^2 + a u        (exactly; zero at u = 0)

and u = sinh(rho v)/rho with the midpoint rule v_k = (k+1/2) h converges geometrically,
h = c/sqrt(d' + 2b). c and rho are functions of s = d' + 2b alone, found by minimising the largest
error over all (d, nc, x) with that s: 20 nodes give 4e-15. With the tables of `_nodes` a node costs
one exp, one sin-cos and one division.

The pole z = 1 lies on the imaginary v axis at distance y with sin(rho y)/rho = |1 - 1/sqrt(z0)|;
the rule sees it as the one-sided term 1/(1+exp(2 pi y/h)) (Goodwin; Matta and Reichel), uniformly
through x = mean. That term belongs in as long as exp(Re(iy) - 2 pi y/h) has only fallen on the way
to y: beyond, the rule's own error has saturated and the pole is outside. |dRe/du| < 2 pi/h at the
pole ensures it (|du/dv| <= 1, and |dRe/du| grows with y); where that leaves the term out too early
it is below exp(-50) already.
"""

from functools import partial

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv.stats._logspace import log_plus_reciprocal, sum_with_log, two_sum
from jaxpriv.stats._nodes import LEVELS, RULES, TABLES, ladder, level_of, sincos

RANGE = {"float64": (1e-300, 1e290), "float32": (1e-30, 1e28)}  # of x; 4 nc x must stay finite
_UNROLL = 2


def inside_range(x):
    """The x of the contour's range next to x."""
    return xp.clip(x, *RANGE[x.dtype.name])


def _geometry(x, df, nc):
    """The contour for (x, df, nc): saddle z0, e = z0-1 (without cancellation), b = nc/z0,
    and the ladder level of h.

    `nc is None` is the central law: the caller's Python, not the array,
    says that every term in b may be left out.
    """
    shift = RULES[x.dtype.name].shift
    shifted = df + shift
    if nc is None:
        root, total, error = shifted, df, xp.zeros_like(df)
    else:
        root = xp.sqrt(shifted * shifted + 4 * nc * x)
        total, error = two_sum(df, nc)
    z0 = (shifted + root) / (2 * x)
    # z0 - 1 = -2 (x - d' - nc) / (2x - d' + root); df+nc is summed exactly,
    # for at the mean every digit of it cancels.
    excess = ((x - total) - error) - shift
    e = xp.where(z0 > 2, z0 - 1, -2 * excess / ((2 * x - shifted) + root))
    b = None if nc is None else nc / z0
    s = shifted if b is None else shifted + 2 * b
    # Past the ladder's end the sums have their limiting shape: evaluate them at the end's scale.
    squeeze = xp.minimum(1.0, shift * ladder(LEVELS - 1) / s).astype(x.dtype)
    return z0, e, b, level_of(s), squeeze


def _log_scale(df, nc, z0, e):
    """phi(z0), and two parts of it, phi(z0) + (d/2) ln z0 = linear + rest,
    from x = d'/z0 + nc/z0^2:

    phi(z0) = -(d/2)(ln z0 + 1/z0 - 1) + (a/2)(1-1/z0) - (nc/2)(1-1/z0)^2.
    """
    # e/z0 would be compiled to (e 2x)/(d' + root), and at large z0 that is not 1
    ratio = xp.where(z0 > 2, 1 - 1 / z0, e / z0)
    shift = RULES[z0.dtype.name].shift
    rest = 0.0 if nc is None else -(nc / 2) * ratio * ratio
    phi = -(df / 2) * log_plus_reciprocal(z0, e) + (shift / 2) * ratio + rest
    return phi, ((df + shift) / 2) * ratio, rest


def _tail(f, node):
    """f z0/(z-1): with z - 1 scaled by max(z0, 1), so that neither tail overflows."""
    (fr, fi), (zr, zi), z_scaled = f, node["z-1"], node["z0/g"]
    return (fi * zr - fr * zi) * z_scaled / (zr * zr + zi * zi)


def _density(f, node):
    return f[1]


def _density_up(f, node):
    """f z0/z: the density with two more degrees of freedom."""
    return f[1] * node["z0/z"][0] + f[0] * node["z0/z"][1]


def _tail_log(f, node):
    """f z0 ln(z)/(z-1)."""
    lr, li = node["ln z"]
    return _tail((f[0] * lr - f[1] * li, f[0] * li + f[1] * lr), node)


def _density_log(f, node):
    lr, li = node["ln z"]
    return f[0] * li + f[1] * lr


def _density_gap(f, node):
    """f (z-1)/z."""
    (ar, ai), (br, bi) = node["z-1"], node["z0/z"]
    return (f[0] * (ar * bi + ai * br) + f[1] * (ar * br - ai * bi)) / node["z0/g"]


def _density_slope(f, node):
    """f (z-1)/z0."""
    (zr, zi), z_scaled = node["z-1"], node["z0/g"]
    return (f[0] * zi + f[1] * zr) / z_scaled


def _node_sum(weights, geometry, df, displacement):
    """Sums of f w(z) over the nodes for two weights,
    packed as real and imaginary part of one array.

    (One complex output keeps each step a single fused loop; with two outputs XLA stores the
    gathered constants and takes four times as long.) `displacement` is None or (dx, dd, dnc) with
    value zero: the linear part of the exponent, through which derivatives of every order flow while
    the contour stands still.
    """
    z0, e, b, level, squeeze = geometry
    rule = RULES[z0.dtype.name]
    h, rho, columns = TABLES[z0.dtype.name]
    columns = [xp.like(c, z0) for c in columns]
    central = b is None
    g = xp.maximum(z0, 1.0)
    e_scaled, z_scaled = e / g, z0 / g
    log_z0 = xp.log(z0)
    d_s = df * squeeze
    b_s = None if central else b * squeeze
    shift_s = rule.shift * squeeze

    def node_term(index):
        def constant(j):
            return xp.gathered(columns[j], index)

        u, weight = constant(4), constant(5)
        w = u * u
        log_part, angle_part = constant(0), constant(2)
        re = d_s * log_part - (shift_s / 2) * w
        im = d_s * angle_part + shift_s * u
        if not central:
            re = re + b_s * constant(1)
            im = im + b_s * constant(3)
        q = 1 / (1 + w)
        node = {
            "z0/g": z_scaled,
            "z-1": (e_scaled - z_scaled * w, 2 * z_scaled * u),
            "z0/z": ((1 - w) * q * q, -2 * u * q * q),
            "ln z": (log_z0 - 2 * log_part - w, 2 * (u - angle_part)),
        }
        if displacement is not None:
            dx, dd, dnc = displacement
            (ar, ai), (lr, li), (br, bi) = node["z-1"], node["ln z"], node["z0/z"]
            re = re + (g * ar) * (dx / 2) - lr * (dd / 2)
            im = im + (g * ai) * (dx / 2) - li * (dd / 2)
            if not central:
                re = re - (1 - br / z0) * (dnc / 2)
                im = im + (bi / z0) * (dnc / 2)
        sin, cos = sincos(im)
        size = xp.exp(re) * weight
        # f = exp(phi - phi(z0)) dz/(pi z0), dz/z0 = 2i(1+iu) du; `weight` carries 2 du/pi.
        # Conjugate nodes halve the sum.
        f = (-size * (sin + u * cos), size * (cos - u * sin))
        return tuple(weigh(f, node) for weigh in weights)

    def step(i, total):
        first = second = xp.zeros_like(z0)
        for k in range(_UNROLL):
            a, c = node_term(level + (i * _UNROLL + k) * LEVELS)
            first, second = first + a, second + c
        return total + xp.make_complex(first, second)

    if not xp.any_jax(z0):
        first, second = xp.sums_over(lambda i: node_term(level + i * LEVELS), rule.nodes, z0)
        return first * xp.sqrt(squeeze), second * xp.sqrt(squeeze)
    start = xp.zeros_like(z0)
    total = xp.fori_loop(0, rule.nodes // _UNROLL, step, xp.make_complex(start, start))
    total = total * xp.sqrt(squeeze)
    return total.real, total.imag


@partial(xp.custom_jvp, nondiff_argnums=(0,))
def _sums(weights, x, df, nc):
    """The two scaled integrals exp(-phi(z0)) J[w]/z0, to be used in ratios: derivatives leave
    contour and scale fixed.
    """
    return _node_sum(weights, _geometry(x, df, nc), df, None)


@_sums.defjvp
def _sums_jvp(weights, primals, tangents):
    def displaced(x, df, nc):
        fixed = xp.stop_gradient((x, df, nc))
        dnc = None if nc is None else nc - fixed[2]
        return _node_sum(weights, _geometry(*fixed), fixed[1], (x - fixed[0], df - fixed[1], dnc))

    return jax.jvp(displaced, primals, tangents)


def _pole_term(df, nc, z0, e, b, level, phi):
    """What the rule adds for the pole at z = 1, divided by exp(phi(z0));
    zero once the pole is out of its sight.
    """
    h, rho, _ = TABLES[z0.dtype.name]
    h, rho = (xp.gathered(table.astype(z0.dtype), level) for table in (h, rho))
    root = xp.sqrt(z0)
    r = 1 / root  # 1+iu at the pole
    reach = rho * xp.abs(e) / (root * (root + 1))
    inside = reach < 1
    reach = xp.where(inside, reach, 0.0)
    y = xp.arcsin(reach) / rho
    b = 0.0 if b is None else b
    growth = xp.abs(-df / r + (df + RULES[z0.dtype.name].shift + b) * r - b / r**3)
    inside = inside & (growth < 2 * np.pi / h)
    decay = 2 * np.pi * y / h
    return xp.where(
        inside, xp.exp(xp.where(inside, -phi - decay, -1.0)) / (1 + xp.exp(-decay)), 0.0
    )


@xp.custom_jvp
def _chi_square(x, df, nc):
    """(log pdf, log sf, log cdf, log sf/pdf, log cdf/pdf) at 0 < x < inf, df > 0, nc >= 0
    (None: central), same shapes.

    The last two (Mills' ratio and its mirror image) come without the exponentials, so that
    differences of tails deep in the tail can be formed from them. Every output is accurate on its
    own scale; the tail on the far side of the mean is log(1 - other), which loses nothing because
    the other is then of order one.
    """
    geometry = _geometry(x, df, nc)
    z0, e, b, level, _ = geometry
    phi, linear, rest = _log_scale(df, nc, z0, e)
    density, tail = _sums((_density, _tail), x, df, nc)
    upper_side = e < 0  # not z0 < 1: near the mean z0 may round to 1 from either side
    tail = xp.where(upper_side, -tail, tail) + _pole_term(df, nc, z0, e, b, level, phi)
    log_density = xp.log(density * (z0 / 2))
    log_tail = xp.log(tail)
    # for large z0 the multiples of ln z0 are joined,
    # and may nearly cancel nc/2 while both are large
    towards_zero = sum_with_log(1 - df / 2, z0, rest, linear + xp.log(density / 2))
    logpdf = xp.where(z0 > 4, towards_zero, phi + log_density)
    small = xp.minimum(phi + log_tail, -xp.finfo(x.dtype).tiny)
    large = xp.log1p(-xp.exp(small))
    logsf = xp.where(upper_side, small, large)
    logcdf = xp.where(upper_side, large, small)
    near, far = log_tail - log_density, large - logpdf
    return logpdf, logsf, logcdf, xp.where(upper_side, near, far), xp.where(upper_side, far, near)


chi_square = xp.jit(_chi_square)  # traced and lowered once for all callers of a shape


def density_ratios(x, df, nc):
    """(d sf/dnc)/pdf = pdf_{df+2}/pdf and (d sf/ddf)/pdf:
    how far a unit of nc or of df moves a quantile.
    """
    z0 = _geometry(*xp.stop_gradient((x, df, nc)))[0]
    density, _ = _sums((_density, _tail), x, df, nc)
    up, log_weighted = _sums((_density_up, _tail_log), x, df, nc)
    return up / (z0 * density), log_weighted / (z0 * density)


@xp.jit
def log_likelihood_ratio_and_slope(x, df, nc):
    """log of the noncentral over the central density at 0 < x < inf,
    and its derivative in x (both increasing functions).

    The ratio is -nc/2 + log 0F1(; df/2; nc x/4). The two exponents are subtracted in closed form:
    with d' = df + a the saddles are z_P = d'/x and z_Q = z_P (1+g), g(1+g) = nc x/d'^2,
    so that nc/z_Q = d' g and
        phi_Q - phi_P = (df/2)(g - log(1+g)) + (d' - df/2) g - nc/2.
    From 0F1' and the shape of the central density the slope is (nc/2x) pdf_{df+2}/pdf.
    """
    shifted = df + RULES[x.dtype.name].shift
    r = nc * (x / shifted) / shifted
    g = 2 * r / (1 + xp.sqrt(1 + 4 * r))
    phi = (
        (df / 2) * log_plus_reciprocal(1 / (1 + g), -g / (1 + g)) + (shifted - df / 2) * g - nc / 2
    )
    both = tuple(xp.stack(pair) for pair in ((x, x), (df, df), (nc, xp.zeros_like(nc))))
    geometry = _geometry(*both)
    density, up = _node_sum((_density, _density_up), geometry, both[1], None)
    ratio = phi + xp.log1p(g) + xp.log(density[0] / density[1])
    return ratio, nc / (2 * x) * up[0] / (geometry[0][0] * density[0])


@xp.custom_jvp
def log_likelihood_ratio(x, df, nc):
    """The first of `log_likelihood_ratio_and_slope`, differentiable."""
    return log_likelihood_ratio_and_slope(x, df, nc)[0]


@log_likelihood_ratio.defjvp
def _log_likelihood_ratio_jvp(primals, tangents):
    def difference(x, df, nc):
        return chi_square(x, df, nc)[0] - chi_square(x, df, None)[0]

    return log_likelihood_ratio(*primals), jax.jvp(difference, primals, tangents)[1]


def _zero(tangent):
    return type(tangent) is jax.custom_derivatives.SymbolicZero


def _chi_square_jvp(primals, tangents):
    x, df, nc = primals
    dx, ddf, dnc = tangents
    values = chi_square(x, df, nc)
    _, _, _, upper, lower = values
    z0 = _geometry(*xp.stop_gradient((x, df, nc)))[0]
    density, _ = _sums((_density, _tail), x, df, nc)
    dlogpdf = d_quantile = xp.zeros_like(x)  # d_quantile: -dsf/pdf
    if not _zero(dx):
        slope, up = _sums((_density_slope, _density_up), x, df, nc)
        # towards x = 0 the law is a power of x,
        # and the slope's terms in 1/x are kept apart from the rest
        bessel = 0.0 if nc is None else nc * up / density / (2 * z0 * x)
        steep = (df - 2) / (2 * x) + bessel - 0.5
        dlogpdf = dlogpdf + xp.where(z0 > 2, steep, 0.5 * z0 * slope / density) * dx
        d_quantile = d_quantile + dx
    if not _zero(ddf):
        _, rate = density_ratios(x, df, nc)
        log_z, _ = _sums((_density_log, _density_gap), x, df, nc)
        dlogpdf = dlogpdf - 0.5 * log_z / density * ddf
        d_quantile = d_quantile - rate * ddf
    if nc is not None and not _zero(dnc):
        rate, _ = density_ratios(x, df, nc)
        _, gap = _sums((_density_slope, _density_gap), x, df, nc)
        dlogpdf = dlogpdf - 0.5 * gap / density * dnc
        d_quantile = d_quantile - rate * dnc
    dlogsf = -xp.exp(-upper) * d_quantile
    dlogcdf = xp.exp(-lower) * d_quantile
    return values, (dlogpdf, dlogsf, dlogcdf, dlogsf - dlogpdf, dlogcdf - dlogpdf)


_chi_square.defjvp(_chi_square_jvp, symbolic_zeros=True)
