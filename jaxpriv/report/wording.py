"""The mechanisms of `jaxpriv.worst_case` in words: which change of the data set is protected, what
is sampled, and what the adversary is not told.
"""

from typing import NamedTuple

from jaxpriv import worst_case

# makers of numbers or of what other steps say as well
LEFT_OUT = {
    "signal": "a number, no mechanism",
    "gaussian_releases": "several gaussian steps of a pipeline",
}


class Wording(NamedTuple):
    """What a certificate says of one mechanism.

    change: "add_remove", "replace_one" or "zero_out", or None for what its parameters are given
        for. unit: "record" or "user", or None for either. sampling: with the names of arguments in
        braces. told: what else is to be known of the adversary or of the bound.
    """

    title: str
    change: str | None = None
    unit: str | None = None
    sampling: str = "none, every record takes part"
    told: str = ""


_DRAWN = "It does not know which records a step draws."
_POISSON = "Poisson, every record takes part in a step with probability {sampling_rate:.10g}, \
independently"
_ALLOCATED = "random allocation, every record takes part in {selected} of an epoch's {steps:.10g} \
steps, chosen at random and anew in every epoch ({epochs:.10g} in all)"
_ONLY_ABOVE = "Only the upper ends of brackets are the mechanism's."

_WORDINGS = {
    "gaussian": Wording("Gaussian noise"),
    "laplace": Wording("Laplace noise"),
    "randomized_response": Wording("randomised response, which covers every pure ε-DP mechanism"),
    "approximate_dp": Wording(
        "a black box",
        told="Of a black box it learns the most that (ε, δ)-DP allows.",
    ),
    "subsampled_gaussian": Wording("DP-SGD", "add_remove", "record", _POISSON, _DRAWN),
    "subsampled_gaussian, fixed size": Wording(
        "DP-SGD with batches of a fixed size", "add_remove", "record",
        "fixed size, a share of {sampling_rate:.10g} of the records is drawn without replacement, "
        "anew in every step",
        f"{_DRAWN} {_ONLY_ABOVE}",
    ),
    "truncated_gaussian": Wording(
        "DP-SGD whose batches are cut", "add_remove", "record",
        f"{_POISSON}; of a batch with more than {{largest_batch}} records that many are kept, at "
        "random",
        f"{_DRAWN} {_ONLY_ABOVE}",
    ),
    "gaussian_mixture": Wording(
        "Gaussian noise on a sum that is moved by a random amount", "add_remove",
        sampling="as the weights say, which are the probabilities of the shifts",
        told="It does not know which of the shifts was drawn.",
    ),
    "user_level": Wording(
        "DP-SGD that protects whole users", "add_remove", "user",
        "Poisson, each of a user's records, {records_per_user} at most, takes part in a step with "
        "probability {sampling_rate:.10g}, independently",
        _DRAWN,
    ),
    "random_allocation": Wording(
        "DP-SGD with random allocation", "add_remove", "record", _ALLOCATED,
        "It does not know which steps a record takes part in.",
    ),
    "random_allocation, several": Wording(
        "DP-SGD with random allocation", "add_remove", "record", _ALLOCATED,
        f"It does not know which steps a record takes part in. {_ONLY_ABOVE}",
    ),
    "shuffled_gaussian": Wording(
        "DP-SGD whose loader shuffles", "zero_out", "record",
        "shuffled, the data set is permuted before each of {epochs:.10g} epochs and dealt into "
        "{steps:.10g} batches",
        "It does not know the permutations. Of shuffled batches the upper ends of brackets are "
        "proven, and the lower ones are what known attacks reach.",
    ),
    "discrete_gaussian": Wording("discrete Gaussian noise"),
    "discrete_laplace": Wording("discrete Laplace noise"),
    "exponential_mechanism": Wording("the exponential mechanism", told=_ONLY_ABOVE),
    "report_noisy_max": Wording("report noisy max", told=_ONLY_ABOVE),
    "k_ary_randomized_response": Wording("k-ary randomised response", "replace_one"),
    "unary_encoding": Wording("unary encoding", "replace_one"),
    "rappor": Wording("RAPPOR", "replace_one"),
}
_VARIANTS = (
    ("fixed size", lambda arguments: arguments.get("sampling") == "fixed_size"),
    ("several", lambda arguments: arguments.get("selected", 1) > 1),
)
_CHANGES = {
    "add_remove": "add/remove {whom}",
    "replace_one": "replace {whom} by {others}",
    "zero_out": "zero out {whom} (places stay as they are, and what was there adds nothing)",
}
_UNITS = {
    "record": ("one record", "up to {} records together"),
    "user": ("one user with all of its records: whole users are protected",
             "up to {} users together, with all of their records: whole users are protected"),
}


def mechanisms():
    """The names that a pipeline takes: makers of `jaxpriv.worst_case` that there are words for."""
    return [name for name in _WORDINGS if hasattr(worst_case, name)]


def wording_of(name, arguments):
    """The `Wording` of a mechanism with all of its arguments, defaults included."""
    kinds = [f"{name}, {kind}" for kind, holds in _VARIANTS if holds(arguments)]
    found = _WORDINGS[kinds[0] if kinds else name]
    return found._replace(
        change=arguments.get("adjacency", found.change),
        sampling=found.sampling.format(**arguments),
    )


def adjacency_of(change, unit, group, open_ones):
    """The sentence about neighbouring data sets.

    Args:
        change, unit: as in `Wording`. group: so many changes at once.
        open_ones: names of the mechanisms that are for any change.
    """
    if change is None:
        given = "the one that sensitivities, ε and δ of the steps are given for"
        return given if group == 1 else f"{given}, for up to {group} changes together"
    one, several = _UNITS[unit or "record"]
    whom = one if group == 1 else several.format(group)
    said = _CHANGES[change].format(whom=whom, others="another" if group == 1 else "others")
    if not open_ones:
        return said
    one_by_one = " for one of them" if group > 1 else ""
    return f"{said} (what {', '.join(open_ones)} are given has to be{one_by_one} for this relation)"
