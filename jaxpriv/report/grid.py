"""All combinations of what is swept in the description of a mechanism."""

import itertools

from jaxpriv.report.ranges import values

_LISTS = ("shifts", "weights")  # arguments that are lists themselves
_WHOLE = ("steps", "times", "dim", "releases", "records_per_user", "selected", "categories",
          "hashes", "dataset_size", "largest_batch")
_WORDS = ("noise", "mechanism", "adjacency", "sampling")


def combinations(table, settings, log=False):
    """(axes, [settings]): what takes more than one value, and every combination of the values,
    the last axis changing fastest.

    Args:
        table: "mechanism" or "pipeline"; settings: its settings. Swept are texts "a,b,c" and
            "start:stop:count", and in a pipeline lists, but for `shifts` and `weights`.
        log: ranges in equal ratios.

    Returns: axes: {name: [values]}, names with "step 2: " where a pipeline has several steps.
    Raises: ValueError naming the setting.

        >>> table = {"mechanism": "gaussian", "mu": [0.1, 0.2], "times": "1:3:3"}
        >>> axes, found = combinations("pipeline", {"steps": [table], "group": 1})
        >>> axes
        {'mu': [0.1, 0.2], 'times': [1, 2, 3]}
        >>> len(found), found[1]
        (6, {'steps': [{'mechanism': 'gaussian', 'mu': 0.1, 'times': 2}], 'group': 1})
    """
    steps = settings["steps"] if table == "pipeline" else [settings]
    open_ones = {(k, key): _swept(table, key, value, log)
                 for k, step in enumerate(steps) if isinstance(step, dict)
                 for key, value in step.items()}
    places = {place: found for place, found in open_ones.items() if found is not None}
    found = []
    for chosen in itertools.product(*places.values()):
        filled = [dict(step) if isinstance(step, dict) else step for step in steps]
        for (k, key), value in zip(places, chosen):
            filled[k][key] = value
        found.append({**settings, "steps": filled} if table == "pipeline" else filled[0])
    axes = {(f"step {k + 1}: " if len(steps) > 1 else "") + key: swept
            for (k, key), swept in places.items()}
    return axes, found


def _swept(table, key, value, log):
    """The values of a setting that is swept, else None."""
    if isinstance(value, str) and key not in _WORDS:
        return values(key, value, log, whole=key in _WHOLE)
    if table == "pipeline" and isinstance(value, list) and key not in _LISTS:
        return value
    return None
