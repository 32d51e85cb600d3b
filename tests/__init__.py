"""Tests of jaxpriv; the folders mirror the package."""
