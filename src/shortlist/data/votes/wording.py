"""Counts as people say them."""


def several(count: int, thing: str, verb: str = "") -> str:
    """A count with its noun, and a verb that agrees with it: given for one, without its ``s`` for others.

    >>> several(1, "row", "repeats"), several(2000, "row", "repeats"), several(0, "user")
    ('1 row repeats', '2,000 rows repeat', '0 users')
    """
    one = count == 1
    agreeing = {"is": "are", "has": "have"}.get(verb, verb.removesuffix("s")) if not one else verb
    return f"{count:,} {thing}{'' if one else 's'}{' ' if verb else ''}{agreeing}"
