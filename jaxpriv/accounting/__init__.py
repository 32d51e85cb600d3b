"""Accounting: from a wanted guarantee to the noise that gives it."""

from jaxpriv.accounting.calibrate import calibrate

__all__ = ["calibrate"]
