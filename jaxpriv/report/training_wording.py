"""What the certificate of a training says beside its numbers."""

from jaxpriv._rounding import rounded_down, rounded_up, shown
from jaxpriv.random import EDGE

NOT_PRIVATE = (
    "NOT PRIVATE: the noise came from a seed, which others can guess and then take the noise "
    "off. This certificate says what the same run without a seed would guarantee."
)
FURTHER = (
    "Only the worst case is a differential privacy guarantee. It covers the model, every release "
    "on the way to it and the ledger; not the settings, if they were chosen by looking at the "
    "data, and not the data set's size.",
    "Numbers on held-out records are computed on those records, which no guarantee covers. "
    "Diagnostics, where they were written, and canaries.npz are not private.",
)


def of_noise(added, epsilon, whole_numbers):
    """What is said of the drawn numbers' law; added: `Plan.noise_delta` at epsilon."""
    if whole_numbers:
        return (
            "Sums of gradients and noise are whole numbers, added exactly, and noise has the law "
            "of rounded normal numbers; by how much it may differ is part of every delta, epsilon, "
            f"advantage and TPR here (of delta at ε = {shown(epsilon)}: {rounded_up(added, 2)}), "
            "not of μ. What floating point tells of noise is not at issue."
        )
    return (
        f"Normal numbers are drawn right to rounding up to {EDGE:.1f} standard deviations. What "
        "may differ beyond is part of every delta, epsilon, advantage and TPR here (of delta at "
        f"ε = {shown(epsilon)}: {rounded_up(added, 2)}), not of μ. That these numbers, and "
        "sums with them, are rounded to a grid (Mironov 2012) is not counted."
    )


def assumptions_of(private, added, epsilon, whole_numbers=False):
    """All that is assumed of a training, beside its adversaries; arguments as of `of_noise`."""
    generator = (
        f"Noise comes from the Threefry generator with {128 if whole_numbers else 64} bits of key: "
        "the guarantee is computational."
    )
    return [*([] if private else [NOT_PRIVATE]), *FURTHER, generator,
            of_noise(added, epsilon, whole_numbers)]


def audit_sentence(audit, certificate):
    """What the canaries of the run prove, in one sentence."""
    if certificate.get("selection"):
        return "none: canaries audit one training, not the best of several"
    if audit is None:
        return "none: fewer than two canaries in the data, or out of it"
    said = (
        "are VIOLATED: more than the worst case allows" if audit["violated"] else "are not refuted"
    )
    return (
        f"{audit['canaries']} {audit['kind']} canaries, {audit['correct']} of {audit['guesses']} "
        f"guesses right: ε ≥ {rounded_down(audit['epsilon_lower'])} at δ = "
        f"{certificate['delta']:g} with {audit['confidence']:.0%} confidence; the claim ε ≤ "
        f"{shown(certificate['adversaries'][0]['epsilon'])}, and its whole curve (p = "
        f"{rounded_up(audit['curve_p_value'], 2)}), {said}"
    )


def held_out_sentence(numbers):
    """The numbers on held-out records, by their names."""
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in numbers.items()
                     if name not in ("step", "epsilon", "stop")) or "no evaluation"
