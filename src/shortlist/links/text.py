"""Links as text, for the command line: ``softmax``, ``spa:1:1:0:5:3:1``."""

from shortlist.errors import InputError
from shortlist.links.link import Link


def parse_link(text: str) -> Link | None:
    """The link of a text: a name, and where it takes them its numbers in order, separated by colons; ``none`` is None.

    >>> parse_link("focal-recovery:0:4:0.05")
    focal-recovery:0.0:4.0:0.05
    """
    kind, *numbers = text.strip().lower().split(":")
    if kind == "none" and not numbers:
        return None
    if kind not in Link.kinds:
        raise InputError(f"link: expected one of {', '.join([*Link.kinds, 'none'])}; got {text!r}")
    names = Link.kinds[kind].parameter_names
    if len(numbers) > len(names):
        raise InputError(f"link {kind}: expected at most {len(names)} numbers ({', '.join(names)}), got {text!r}")
    try:
        values = [float(number) for number in numbers]
    except ValueError as error:
        raise InputError(f"link {kind}: expected numbers between the colons, got {text!r}") from error
    return Link.kinds[kind](**dict(zip(names, values, strict=False)))
