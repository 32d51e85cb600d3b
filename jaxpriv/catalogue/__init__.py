"""Curves of `jaxpriv.worst_case` and `jaxpriv.relaxed` that share their parts, by kind of
mechanism; to be used by those names.
"""
