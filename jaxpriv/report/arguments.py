"""`name=value` of a command line as the table of a TOML file would have it."""


def arguments_of(texts):
    """{name: number, list of numbers, bool or word}.

    Raises: ValueError for texts without a name or a value, and for names that come twice.

        >>> arguments_of(["steps=1000", "shifts=0,1.5", "adjacency=replace_one"])
        {'steps': 1000, 'shifts': [0, 1.5], 'adjacency': 'replace_one'}
    """
    found: dict = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise ValueError(f"--with {text!r}: expected name=value")
        if name == "mechanism" or name in found:
            raise ValueError(f"--with {text!r}: {name} is there twice")
        found[name] = _value(value)
    return found


def _value(text):
    if text in ("true", "false"):
        return text == "true"
    try:
        if "," in text:
            return [_number(part) for part in text.split(",")]
        return _number(text)
    except ValueError:
        return text


def _number(text):
    try:
        return int(text)
    except ValueError:
        return float(text)
