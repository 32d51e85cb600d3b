"""Local randomisers: everybody adds noise to the own value before it leaves.

Neighbours are two values of one record. The full adversary tests one known value against another
known one. The relaxed adversary of `jaxpriv.relaxed` tests a known value against "some other one",
a composite alternative, by a test that treats all others alike: of all tests whose power is the
same whichever other value it is the best is that against a uniform draw of it. Of k-ary randomised
response it is the generalised likelihood ratio test; of unary encoding it is better than that one.
"""

from jaxpriv._checks import NONNEGATIVE, RATE, as_parameter, check_choice, check_whole
from jaxpriv._derived import derived
from jaxpriv._types import Numbers
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.local import (
    KaryResponse,
    OtherBit,
    OtherValue,
    PermanentResponse,
    UnaryEncoding,
    UniformReport,
    loss_of_permanent_noise,
)

_MOST = 10**9


def k_ary_randomized_response(
    epsilon: Numbers, categories: int, *, adjacency: str = "replace_one"
) -> Curve:
    """k-ary randomised response: the own one of k values with probability
    e^epsilon/(e^epsilon + k - 1), each other one with 1/(e^epsilon + k - 1).

    Args:
        epsilon: `Float[Array, "..."]` in [0, inf).
        categories: k, whole, 2 ... 10^9.
        adjacency: "replace_one", one value by another; or "zero_out", by a null record, of which
            every value is reported with probability 1/k.

    Returns: the `Curve` of one value against another, the same in both directions: pure epsilon-DP,
        and for k > 2 smaller than `randomized_response(epsilon)`, for most reports tell nothing.
        Zero-out: of a value against none; `reversed()` is that of none against a value,
        `symmetric()` covers both.
    Guarantee: all bounds; the pair is attained by every (two) values.
    Raises: ValueError if epsilon is outside its range, categories is not whole or adjacency is
        another one.
    Source: Kairouz, Bonawitz, Ramage 2016 (arXiv:1602.07387), Section 3.

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.k_ary_randomized_response(2.0, 10)
        >>> print(f"{curve.epsilon(0.0):.4f} {curve.advantage():.4f}")
        2.0000 0.3898
    """
    check_whole("categories", categories, least=2, most=_MOST)
    pairs = {"replace_one": KaryResponse, "zero_out": UniformReport}
    check_choice("adjacency", adjacency, pairs)
    return Curve(pairs[adjacency](as_parameter("epsilon", epsilon, NONNEGATIVE), int(categories)))


def unary_encoding(epsilon: Numbers, optimised: bool = False) -> Curve:
    """Unary encoding: a report of one bit for each value, the own one's bit set, and noise on every
    bit.

    Args:
        epsilon: `Float[Array, "..."]` in [0, inf).
        optimised: False for symmetric noise: each bit is reported as it is with probability
            e^(epsilon/2)/(1 + e^(epsilon/2)). True for optimised unary encoding: the own bit stays
            with 1/2, each other is set with 1/(1 + e^epsilon).

    Returns: the `Curve` of one value against another, whatever their number, the same in both
        directions: two bits decide.
    Guarantee: all bounds; the pair is attained by every two values.
    Raises: ValueError if epsilon is outside its range, TypeError if optimised is no bool.
    Source: Wang, Blocki, Li, Jha 2017 (USENIX Security), Sections 4.3 and 4.4.

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.unary_encoding(2.0)
        >>> print(f"{curve.advantage():.4f}")
        0.4621
        >>> print(f"{jaxpriv.worst_case.unary_encoding(2.0, optimised=True).advantage():.4f}")
        0.3808
    """
    if not isinstance(optimised, bool):
        raise TypeError(f"optimised = {optimised!r} is not a bool")
    return Curve(UnaryEncoding(as_parameter("epsilon", epsilon, NONNEGATIVE), optimised))


def rappor(noise: Numbers, hashes: int = 1) -> Curve:
    """RAPPOR's permanent randomised response, one-time or for all reports together.

    Args:
        noise: `Float[Array, "..."]` in (0, 1]: f, the probability with which each bit is replaced
            by a fair coin.
        hashes: whole, 1 ... 1000: h, bits that a value sets; 1 is basic RAPPOR.

    Returns: the `Curve` of one value against another, the same in both directions: `hashes` times
        symmetric unary encoding with epsilon = 2 log((2 - f)/f). Instantaneous responses that are
        drawn from the permanent one tell nothing more, however many; that a single one of them
        tells less is not used.
    Guarantee: all bounds, for values that share no bit; values that do are covered.
    Raises: ValueError for values outside their range.
    Source: Erlingsson, Pihur, Korolova 2014 (arXiv:1407.6981), Theorem 1.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.rappor(0.5).epsilon(0.0):.4f}")
        2.1972
        >>> print(f"{jaxpriv.worst_case.rappor(0.5, hashes=2).epsilon(1e-3):.4f}")
        4.3913
    """
    check_whole("hashes", hashes, most=1000)
    epsilon = derived(loss_of_permanent_noise, as_parameter("noise", noise, RATE))
    return Curve(PermanentResponse(epsilon, False)).compose(hashes)


def k_ary_other_value(epsilon: Numbers, categories: int) -> Curve:
    """k-ary randomised response against an adversary who asks whether the value is a certain one,
    and does not know which it is else.

    Is the report the suspected value, or not? Null: the value is the suspected one; alternative:
    it is some other one, all alike. So the power is the same for every other value. Losses are
    -epsilon and log((e^epsilon + k - 2)/(k - 1)), far below epsilon where k is large.

    Args:
        epsilon: `Float[Array, "..."]` in [0, inf).
        categories: k, whole, 2 ... 10^9; 2 is the full adversary.

    Returns: the forward `Curve`; quote `symmetric()`, beside
        `jaxpriv.worst_case.k_ary_randomized_response`. Composed reports are those of values of
        which each is another one; who sees one value reported several times adds them up, and is
        not covered.
    Guarantee: none for differential privacy; bounds bracket this adversary's numbers.
    Raises: ValueError if epsilon is outside its range or categories is not whole.
    Source: derived here, in the sense of Kaissis et al. 2022 (arXiv:2210.13028), Section 3, and
        Kaissis et al. 2023 (NeurIPS 36), Section 6, who ask for it.

        >>> import jaxpriv
        >>> curve = jaxpriv.relaxed.k_ary_randomized_response(2.0, 10)
        >>> print(f"{curve.epsilon(0.0):.4f} {curve.symmetric().epsilon(0.1):.4f}")
        0.5364 1.7492
    """
    check_whole("categories", categories, least=2, most=_MOST)
    return Curve(OtherValue(as_parameter("epsilon", epsilon, NONNEGATIVE), int(categories)))


def unary_other_value(epsilon: Numbers, categories: int, optimised: bool = False) -> Curve:
    """Unary encoding against an adversary who asks whether the value is a certain one, and does not
    know which it is else.

    It sees whether the suspected value's bit is set, and how many of the other bits are: with m of
    k - 1 set, and b = 1 if the suspected one is, the loss is
    log(1 + m (e^epsilon - 1)/(k - 1)) - b epsilon.

    Args:
        epsilon, optimised: as in `jaxpriv.worst_case.unary_encoding`.
        categories: k, whole, 2 ... 64; 2 is the full adversary.

    Returns: the forward `Curve`; quote `symmetric()`, beside `jaxpriv.worst_case.unary_encoding`.
        Composed reports are those of values of which each is another one.
    Guarantee: none for differential privacy; bounds bracket this adversary's numbers.
    Raises: ValueError for values outside their range, TypeError if optimised is no bool.
    Source: derived here, as `jaxpriv.relaxed.k_ary_randomized_response`.

        >>> import jaxpriv
        >>> curve = jaxpriv.relaxed.unary_encoding(2.0, 20)
        >>> worst = jaxpriv.worst_case.unary_encoding(2.0)
        >>> print(f"{curve.symmetric().delta(1.0):.4f} {worst.delta(1.0):.4f}")
        0.0694 0.3378
    """
    check_whole("categories", categories, least=2, most=64)
    if not isinstance(optimised, bool):
        raise TypeError(f"optimised = {optimised!r} is not a bool")
    epsilon = as_parameter("epsilon", epsilon, NONNEGATIVE)
    return Curve(OtherBit(epsilon, int(categories), optimised))
