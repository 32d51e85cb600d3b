"""Compositions are experiments, too:
transforms of privacy losses, their inversion, and lattices.
"""
