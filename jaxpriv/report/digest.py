"""Was a certificate's file changed after it was written?

A number that is claimed worse than it is, or wrong in its twelfth digit, still holds; that somebody
touched it is another matter. The digest finds what happened by accident, not who forges both: for
that `verify` computes the numbers again.
"""

import hashlib
import json


def with_digest(certificate):
    """The certificate with "digest", of all else in it whatever its order and its spaces are."""
    return {**certificate, "digest": digest(certificate)}


def digest(certificate):
    """SHA-256, as `sha256:` and 64 hexadecimal digits.

    >>> digest({"delta": 1e-5, "digest": "?"}) == digest({"delta": 1e-5})
    True
    """
    rest = {name: value for name, value in certificate.items() if name != "digest"}
    written = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(written.encode()).hexdigest()}"
