"""What the worst case's bound means to people on a list, in a sentence that needs no Greek letter.

The list has `PEOPLE` people, each of whom took part with probability `TOOK_PART`/`PEOPLE`,
independently. Whoever accuses some of them accuses one who did not take part with a mean
probability alpha (type I error) and one who did with a mean probability t. Given everybody else,
the two are errors of one test between neighbouring data sets, so t lies on or below every
supporting line of the power, delta + e^epsilon alpha; and a line that holds of each holds of means.
To accuse `ACCUSED` = `TOOK_PART` on average says 10 t + 990 alpha = 10, or alpha = r (1 - t) with
the odds r = 10/990. Each line then bounds t, which is also the share of accusations that are right,
by their mean numbers: 1 - t >= (1 - delta)/(1 + r e^epsilon). (The other direction's lines,
1 - e^-epsilon (1 - delta - alpha), say (1 - delta)/(r + e^epsilon), which is less.)

Whoever guesses at a record itself, and without the release is right with a mean probability b at
most, is right with it with the power at the level b at most (`Curve.reconstruction_success`), which
lies on or below the lines of either direction.
"""

import math

from jaxpriv._rounding import rounded_up

PEOPLE, TOOK_PART = 1000, 10
ACCUSED = TOOK_PART
GUESSED_BEFORE, OF = 1, 10  # guesses that would be right without the release
_ODDS = TOOK_PART / (PEOPLE - TOOK_PART)
_ROUNDED = 1e-13


def share_right(lines):
    """An upper bound of the share of right accusations, in [TOOK_PART/PEOPLE, 1].

    Args: lines: [(epsilon, upper bound of delta)] of a curve that covers both directions.
    Guarantee: the module's text; the lowest of these lines.

        >>> print(f"{share_right([(0.0, 0.0)]):.4g} {share_right([(0.0, 1.0)]):.4g}")
        0.01 1
    """
    return min(1.0, *(_of_line(*line) for line in lines))


def _of_line(epsilon, delta):
    falling = math.exp(-epsilon)  # the rising one may overflow
    return (delta * falling + _ODDS) / (falling + _ODDS) * (1 + _ROUNDED)


def guessed_right(lines):
    """An upper bound of the share of right guesses at a record, in [`GUESSED_BEFORE`/`OF`, 1].

    Args: lines: as of `share_right`. Guarantee: the module's text; the lowest of these lines.

        >>> print(f"{guessed_right([(0.0, 0.0)]):.4g} {guessed_right([(0.0, 1.0)]):.4g}")
        0.1 1
    """
    return min(1.0, *(_power_of_line(*line) for line in lines))


def _power_of_line(epsilon, delta):
    before, rising = GUESSED_BEFORE / OF, math.exp(min(epsilon, 700.0))
    other = 1 - (1 - delta - before) / rising  # of the other direction
    return min(delta + rising * before, other) * (1 + _ROUNDED)


def in_plain_words(lines, protects):
    """What a certificate says of its worst case to people on a list.

    Args:
        lines: of the worst case, as for `share_right`.
        protects: (change, unit, group) as in `jaxpriv.report.wording`; change and unit may be None.

    Returns: {"people", "took_part", "accused", "right": an upper bound of how many of the accused
        took part on average, "sentence", "holds": whom it holds against, and of what list,
        "guessed": an upper bound of how many of `OF` guesses at a record are right,
        "reconstruction": that in a sentence}.

        >>> print(in_plain_words([(0.0, 0.02)], ("add_remove", "record", 1))["sentence"])
        Of 1000 people, each with one record, 10 took part. The best attacker accuses 10 of the \
1000: on average at most 0.3 of these 10 accusations are right, where blind guessing gets 0.1.
    """
    change, unit, group = protects
    right, guesses = ACCUSED * share_right(lines), OF * guessed_right(lines)
    shown, guessed = rounded_up(right, 2), ACCUSED * TOOK_PART / PEOPLE
    people, each, theirs = "people", "each", "is theirs"
    if group > 1:
        people, each = f"groups of up to {group} people", "each person"
        theirs = "each person has"
    records = {"record": f", {each} with one record,", "user": f", {each} with all their records,"}
    if change == "replace_one":
        which = (f"Of {PEOPLE} {people}, {TOOK_PART} have a certain secret: it decides which of "
                 f"two known records {theirs}.")  # fmt: skip
        secret = "has the secret"
    else:
        which = f"Of {PEOPLE} {people}{records.get(unit, '')} {TOOK_PART} took part."
        secret = "took part"
    whose = "what the records of such a group say" if group > 1 else {
        "record": "what somebody's record says", "user": "what somebody's records say",
    }.get(unit, "what somebody's data say")
    meant = {
        "zero_out": " Not to take part means that one's record is zeroed out.",
        None: " Taking part means the change that the numbers of the mechanism are given for.",
    }.get(change, "")
    return {
        "people": PEOPLE, "took_part": TOOK_PART, "accused": ACCUSED, "right": right,
        "sentence": (
            f"{which} The best attacker accuses {ACCUSED} of the {PEOPLE}: on average at most "
            f"{shown} of these {ACCUSED} accusations are right, where blind guessing gets "
            f"{guessed:g}."
        ),
        "holds": (
            "This holds against everybody whom the worst case covers: attackers who know "
            f"everything except who of the {PEOPLE} {secret} and what the mechanism drew at "
            "random; as long as what is assumed is so and the mechanism ran as described. "
            f"Averages: each of the {PEOPLE} {secret} with probability {TOOK_PART} in {PEOPLE}, "
            f"independently, and {ACCUSED} are accused on average.{meant}"
        ),
        "guessed": guesses,
        "reconstruction": (
            f"Whoever guesses {whose}, and would be right {GUESSED_BEFORE} time in {OF} without "
            f"the release, is right at most {rounded_up(guesses, 3)} times in {OF} with it."
        ),
    }  # fmt: skip
