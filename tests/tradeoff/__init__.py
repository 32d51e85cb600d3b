"""Tests of jaxpriv.tradeoff and of the catalogues, written against the public functions alone."""
