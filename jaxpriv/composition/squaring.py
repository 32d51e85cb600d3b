"""n of one thing seen together, by squaring."""


def power(one, count, together):
    """together(one, one, ...), of `count` >= 1 of them; None as soon as a part of it is None."""
    total = None
    while one is not None:
        if count % 2:
            total = one if total is None else together(total, one)
            if total is None:
                break
        count //= 2
        if not count:
            return total
        one = together(one, one)
    return None
