"""Rebuild tests/data/ncx2_extreme.json: `python -m tests.make_tables` (half an hour;
the tests only read the file).

Every entry has exact float64 inputs and 20-digit decimal strings from the Poisson mixture of
tests/oracles.py: three logarithms, their gradients in (x, df, nc), and for the moderate points
their Hessians. With f_d the density,
    d sf/dx = -f_d      d sf/dnc = f_{d+2}      df/dnc = (f_{d+2} - f_d)/2
    df/dx = ((d/2 - 1)/x - 1/2) f_d + nc/(2x) f_{d+2}
are exact; df is differentiated by central differences at a relative step of 1e-18,
whose error is below 1e-24.
"""

import json
import math
from pathlib import Path

from mpmath import mp, mpf, nstr

from tests.oracles import log_of, ncx2

STEP = mpf(10) ** -18
PATH = Path(__file__).parent / "data" / "ncx2_extreme.json"


def chernoff(z, df, nc):
    """Exponent at the saddle point z, a first estimate of the log tail."""
    return -0.5 * df * (math.log(z) + 1 / z - 1) - 0.5 * nc * (1 - 1 / z) ** 2


def place(df, nc, log_tail, upper):
    """The x whose log tail is about `log_tail`, or None where it leaves float64's range."""
    inside, outside = 0.0, -600.0 if upper else 600.0
    for _ in range(80):
        middle = (inside + outside) / 2
        inside, outside = (
            (middle, outside) if chernoff(math.exp(middle), df, nc) > log_tail else (inside, middle)
        )
    z = math.exp(inside)
    x = df / z + nc / z / z
    return x if 1e-300 < x < 1e300 and abs(chernoff(z, df, nc) / log_tail - 1) < 0.01 else None


def positions(df, nc, short):
    """The x to look at, from the smallest floats to log tails of -1e5."""
    mean, deviation = df + nc, math.sqrt(2 * df + 4 * nc)
    steps = (-8, -2, 0, 1e-3, 2, 8) if not short else (-8, 0, 8)
    yield from (mean + k * deviation for k in steps if mean + k * deviation > 0)
    for log_tail in (-50, -1e3, -1e4, -1e5) if not short else (-1e3, -1e5):
        for upper in (True, False):
            x = place(df, nc, log_tail, upper)
            if x:
                yield x
    yield from (1e-300, 1e-100, 1e-10, 1e-3) if not short else (1e-10,)


def differentiate(x, df, nc, hessian):
    """Logs, gradients and Hessians (xx, xd, xl, dd, dl, ll) of the log of (pdf, cdf, sf)."""
    with mp.workdps(80 + 2 * max(0, -math.floor(math.log10(x)))):
        x, df, nc = mpf(x), mpf(df), mpf(nc)
        step = df * STEP
        degrees = (df, df - step, df + step)
        here = [[ncx2(x, d + 2 * shift, nc) for d in degrees] for shift in (0, 1)]
        twice = ncx2(x, df + 4, nc).pdf if hessian else mp.nan

        def by_degrees(values):
            middle, left, right = values
            return (right - left) / (2 * step), (right - 2 * middle + left) / step**2

        def slope(d, value, next_value):
            return ((d / 2 - 1) / x - mpf(1) / 2) * value + nc / (2 * x) * next_value

        pdf, next_pdf = ([tails.pdf for tails in row] for row in here)
        slopes = [slope(d, f, g) for d, f, g in zip(degrees, pdf, next_pdf, strict=True)]
        next_slope = slope(df + 2, next_pdf[0], twice)
        bend = (1 - df / 2) / x**2 * pdf[0] + ((df / 2 - 1) / x - mpf(1) / 2) * slopes[0]
        bend += nc / (2 * x) * (next_slope - next_pdf[0] / x)
        (pdf_d, pdf_dd), (next_d, _), (slope_d, _) = (
            by_degrees(pdf),
            by_degrees(next_pdf),
            by_degrees(slopes),
        )
        center = here[0][0]
        smaller, sign = ("cdf", -1) if center.cdf < center.sf else ("sf", 1)
        sf_d, sf_dd = (sign * v for v in by_degrees([getattr(tails, smaller) for tails in here[0]]))
        of_sf = (-pdf[0], sf_d, next_pdf[0])
        of_sf_twice = (-slopes[0], -pdf_d, (pdf[0] - next_pdf[0]) / 2, sf_dd, next_d,
                       (twice - next_pdf[0]) / 2)
        of_pdf = (slopes[0], pdf_d, (next_pdf[0] - pdf[0]) / 2)
        of_pdf_twice = (bend, slope_d, (next_slope - slopes[0]) / 2)
        of_pdf_twice += (pdf_dd, (next_d - pdf_d) / 2, (twice - 2 * next_pdf[0] + pdf[0]) / 4)
        parts = (("pdf", of_pdf, of_pdf_twice, 1), ("cdf", of_sf, of_sf_twice, -1),
                 ("sf", of_sf, of_sf_twice, 1))
        result = {}
        for name, first, second, sign in parts:
            whole = sign * getattr(center, name)
            gradient = [v / whole for v in first]
            result["log" + name] = nstr(getattr(log_of(center), name), 20)
            result["dlog" + name] = [nstr(v, 20) for v in gradient]
            if hessian:
                pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
                curvature = [
                    v / whole - gradient[i] * gradient[j]
                    for v, (i, j) in zip(second, pairs, strict=True)
                ]
                result["hlog" + name] = [nstr(v, 20) for v in curvature]
        return result


def main():
    """Write the table."""
    entries = []
    for df in (0.5, 1.0, 2.0, 3.5, 10.0, 200.0, 1e4, 1e6, 1e7):
        for nc in (0.0, 1e-8, 0.7, 30.0, 1e4, 1e6, 1e8):
            if nc >= 1e6 and df not in (0.5, 200.0, 1e7):
                continue
            hessian = df <= 1e4 and nc <= 1e4
            rows = positions(df, nc, nc >= 1e6)
            entries += [
                {"x": x, "df": df, "nc": nc} | differentiate(x, df, nc, hessian) for x in rows
            ]
            print(df, nc, len(entries), flush=True)
    meta = {"made by": "python -m tests.make_tables", "gradient": "x df nc",
            "hessian": "xx xd xl dd dl ll (l is nc)"}
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    PATH.write_text(f'{{"meta": {json.dumps(meta)},\n"entries": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
