"""Digests that say whose scores are whose: ``WEIGHTS-INPUTS``, of the weights of a network and of how its inputs are prepared.

Those of earlier versions have the first half only.
"""

import re

WEIGHTS_DIGITS, INPUTS_DIGITS = 16, 8  # hexadecimal
DIGEST = re.compile(f"([0-9a-f]{{{WEIGHTS_DIGITS}}})(?:-([0-9a-f]{{{INPUTS_DIGITS}}}))?")


def joined_digest(weights: str, inputs: str) -> str:
    """One text for both.

    >>> joined_digest("00112233445566778899", "aabbccddeeff")
    '0011223344556677-aabbccdd'
    """
    return f"{weights[:WEIGHTS_DIGITS]}-{inputs[:INPUTS_DIGITS]}"


def other_network(first: str, second: str) -> str:
    """How two networks differ, in words; empty if they are the same as far as both are known.

    Where an earlier version did not note how inputs are prepared, the weights alone are compared.

    >>> weights = "0011223344556677"
    >>> other_network(f"{weights}-aabbccdd", f"{weights}-00000000"), other_network(weights, f"{weights}-aabbccdd")
    ('another preparation of inputs', '')
    >>> other_network(weights, weights[::-1])
    'another network'
    """
    one, other = DIGEST.fullmatch(first), DIGEST.fullmatch(second)
    if one is None or other is None:  # a text of somebody else's
        return "" if first == second else "another network"
    if one[1] != other[1]:
        return "another network"
    return "another preparation of inputs" if one[2] and other[2] and one[2] != other[2] else ""
