"""Tests of jaxpriv.stats, written against the public functions alone."""
