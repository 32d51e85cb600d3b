"""The privacy certificate: one mechanism, the worst case and the realistic case side by side."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jaxpriv import relaxed, worst_case
from jaxpriv._checks import OPEN_UNIT, POSITIVE, check_number
from jaxpriv._rounding import rounded_up
from jaxpriv.curve import Curve
from jaxpriv.report.plain_words import in_plain_words
from jaxpriv.report.profiles import epsilons_of, lines_of, profile_of

FALSE_POSITIVE_RATES = (1e-3, 1e-1)
# an epsilon above which differential privacy promises next to nothing: odds may change by e^10
VACUOUS = 10.0
_EQUAL = 1e-4  # relative: what is not seen in the digits of a table


@dataclass(frozen=True)
class Mechanism:
    """Additive noise on one or several releases.

    Attributes:
        noise: "gaussian" or "laplace".
        sensitivities: how far one record moves each release, L2 for gaussian,
            L1 for laplace; in (0, inf).
        scales: noise standard deviation (gaussian) or scale b (laplace)
            of each release; in (0, inf).
        dim: dimension of a release that a record can move, >= 1; for laplace noise 1.
    """

    noise: str
    sensitivities: tuple
    scales: tuple
    dim: float = 1

    def __post_init__(self):
        if self.noise not in ("gaussian", "laplace"):
            raise ValueError(f"noise = {self.noise!r}; accepted: 'gaussian', 'laplace'")
        for name in ("sensitivities", "scales"):
            for value in getattr(self, name):
                check_number(name, value, POSITIVE)
        if not len(self.sensitivities) == len(self.scales) >= 1:
            counts = f"{len(self.sensitivities)} sensitivities for {len(self.scales)} noise scales"
            raise ValueError(f"{counts}; give one each per release")
        if not (self.dim >= 1 and float(self.dim).is_integer()):
            raise ValueError(f"dim = {self.dim} is outside its range 1, 2, 3, ...")
        if self.noise == "laplace" and len(self.scales) > 1:
            raise ValueError(
                "releases > 1 with laplace noise has no closed form; certify one release"
            )
        if self.noise == "laplace" and self.dim != 1:
            raise ValueError(
                f"dim = {self.dim} with laplace noise: the relaxed Laplace adversary "
                "is known for dim = 1 only"
            )

    @property
    def adjacency(self):
        return "add/remove one record (the sensitivities are for this relation)"

    @property
    def protects(self):
        """(change, unit, group) as in `jaxpriv.report.wording`."""
        return "add_remove", "record", 1

    @property
    def sampling(self):
        return "none: every record takes part in every release"

    def settings(self) -> dict[str, Any]:
        """What a certificate says of it in numbers."""
        return asdict(self)

    def describe(self) -> str:
        """The mechanism in one sentence."""
        count = len(self.scales)
        unit = "std" if self.noise == "gaussian" else "scale"
        pairs = sorted(set(zip(self.sensitivities, self.scales)))
        if len(pairs) == 1:
            size = f"sensitivity {pairs[0][0]:g}, {unit} {pairs[0][1]:g}"
        else:
            size = f"{len(pairs)} different pairs of sensitivity and {unit}"
        return (
            f"Mechanism: {count} release{'s' * (count > 1)} with {self.noise} noise, "
            f"{size}, dimension {self.dim}."
        )

    def adversaries(self) -> list[tuple[str, str, Curve]]:
        """[(name, assumption, curve)], the worst case first."""
        if self.noise == "laplace":
            ratio = self.sensitivities[0] / self.scales[0]
            return [("worst case", worst_case.ASSUMPTION, worst_case.laplace(ratio)),
                    ("relaxed", relaxed.ASSUMPTION, relaxed.laplace(ratio).symmetric())]
        mu = worst_case.signal(np.asarray(self.sensitivities), np.asarray(self.scales))
        rows = [("worst case", worst_case.ASSUMPTION, worst_case.gaussian(mu))]
        for dim in sorted({1, self.dim}):
            extra = " One coordinate carries all the effect." if dim < self.dim else ""
            rows.append((f"relaxed, dim {dim}", relaxed.ASSUMPTION + extra,
                         relaxed.gaussian(mu, dim).symmetric()))
        return rows

    def stages(self) -> Any:
        """None: the releases are not ordered."""
        return None

    def if_shuffled(self, certified: float | None, delta: float) -> None:
        """None: nothing is sampled."""
        del certified, delta


def certify(mechanism: Any, delta: float = 1e-5) -> dict[str, Any]:
    """The certificate of a mechanism as a dictionary of plain numbers and sentences
    (what `--json` prints).

    Args:
        mechanism: a `Mechanism`, a `DpSgd` or a `Pipeline`.
        delta: in (0, 1).

    Returns: {"mechanism", "description", "delta", "adjacency", "sampling", "adversaries":
        [{"adversary", "assumption", "epsilon_lower", "epsilon", "mu_at_slack", "advantage",
        "tpr_at_fpr": {fpr: tpr}, "profile": {epsilon: delta}}], "in_plain_words": what
        `jaxpriv.report.plain_words` says of the worst case, "notes": [sentence], "if_shuffled":
        what `if_shuffled` of `jaxpriv.report.shuffled` says of DP-SGD, else None}; epsilon,
        mu_at_slack, advantage, tpr_at_fpr and the deltas of profile are upper bounds, and what is
        infinite is None. mu_at_slack is
        `gdp_mu(slack=delta)`: G_mu - delta lies below the trade-off curve at every alpha. It is no
        mu of mu-GDP, whose squares add up.
    Raises: ValueError for delta outside its range, ArithmeticError if a number came out as NaN.

        >>> certificate = certify(Mechanism("laplace", (1.0,), (1.0,)), delta=1e-5)
        >>> [(row["adversary"], round(row["epsilon"], 3)) for row in certificate["adversaries"]]
        [('worst case', 1.0), ('relaxed', 0.996)]
    """
    check_number("delta", delta, OPEN_UNIT)
    curves = mechanism.adversaries()
    rows = [_row(name, assumption, curve, delta) for name, assumption, curve in curves]
    _add_profiles(rows, [curve for *_, curve in curves])
    return {
        "mechanism": mechanism.settings(),
        "description": mechanism.describe(),
        "delta": delta,
        "adjacency": mechanism.adjacency,
        "sampling": mechanism.sampling,
        "adversaries": rows,
        "in_plain_words": in_plain_words(lines_of(rows[0], delta), mechanism.protects),
        "notes": notes_of(rows, delta),
        "if_shuffled": mechanism.if_shuffled(rows[0]["epsilon"], delta),
    }


def notes_of(rows, delta):
    """Sentences for the rows of a certificate: which gain nothing over the worst case,
    and whether that is vacuous.
    """
    worst, *others = rows
    none = ["No relaxed adversary is known of this mechanism: the worst case stands alone."]
    notes = [] if others else none
    notes += [
        f"{row['adversary']} gains nothing over the worst case here: its numbers are no smaller."
        for row in others
        if all(_no_smaller(a, b) for a, b in zip(_numbers(row), _numbers(worst), strict=True))
    ]
    return notes + vacuous(worst["epsilon"], delta)


def vacuous(epsilon, delta, target=None):
    """[a sentence] where the worst case's epsilon is above `VACUOUS`, or None for none at all;
    `target`: its threat model.
    """
    if epsilon is not None and epsilon <= VACUOUS:
        return []
    found = (
        "no epsilon is certified"
        if epsilon is None
        else f"epsilon = {rounded_up(epsilon)} is above {VACUOUS:g}"
    )
    cause = (
        "The worst case is vacuous here"
        if target is None
        else f"The {target} target leaves the worst case vacuous"
    )
    return [
        f"{cause}: {found} at delta = {delta:g}, which promises next to nothing "
        "as differential privacy."
    ]


def gains_nothing(target):
    """The sentence for a target in a weaker threat model that the worst case meets as well."""
    return (
        f"The {target} target gains nothing over the worst case here: the worst case meets it, too."
    )


def _no_smaller(value, worst):
    return value is None or (worst is not None and value >= worst * (1 - _EQUAL))


def _numbers(row):
    return [row["epsilon"], row["advantage"], *row["tpr_at_fpr"].values()]


def _add_profiles(rows, curves):
    """Each curve's around its own epsilon: far beyond, deltas tell nothing and cost most."""
    for row, curve in zip(rows, curves, strict=True):
        epsilons = epsilons_of(row["epsilon"])
        deltas = curve.delta_bounds(np.asarray(epsilons))[1]
        if np.isnan(deltas).any():
            raise ArithmeticError(f"the profile of {row['adversary']} contains NaN")
        row["profile"] = profile_of(zip(epsilons, deltas))


def _row(name, assumption, curve, delta):
    epsilon, advantage = curve.epsilon_bounds(delta), curve.advantage_bounds()[1]
    tpr = 1 - curve.beta_bounds(np.asarray(FALSE_POSITIVE_RATES))[0]
    row = {
        "adversary": name,
        "assumption": assumption,
        "epsilon_lower": float(epsilon[0]),
        "epsilon": float(epsilon[1]),
        "mu_at_slack": float(curve.gdp_mu_bounds(slack=delta)[1]),
        "advantage": float(advantage),
        "tpr_at_fpr": {f"{fpr:g}": float(value) for fpr, value in zip(FALSE_POSITIVE_RATES, tpr)},
    }
    numbers = [row["epsilon_lower"], row["epsilon"], row["mu_at_slack"], row["advantage"],
               *row["tpr_at_fpr"].values()]
    if any(math.isnan(number) for number in numbers):
        raise ArithmeticError(f"the certificate of {name} contains NaN: {row}")
    return {key: None if value == math.inf else value for key, value in row.items()}
