"""Links as text: ``softmax``, ``spa:1:1:0:5:3:1``."""

from shortlist.errors import InputError
from shortlist.links.based import BasedLink
from shortlist.links.fitted import FittedLink
from shortlist.links.link import Link
from shortlist.words import expected_one_of


def parse_link(text: str) -> Link | None:
    """The link that a text names: a kind, and its parameters in order, separated by colons; ``none`` gives None.

    >>> parse_link("focal-recovery:0:4:0.05")
    focal-recovery:0.0:4.0:0.05
    """
    kind, *numbers = text.strip().lower().split(":")
    if kind == "none" and not numbers:
        return None
    if kind in Link.kinds and issubclass(Link.kinds[kind], FittedLink):
        raise InputError(
            f"link: expected a link that needs no fit, got {text!r}: fit it with {Link.kinds[kind].__name__}().fit(scores, "
            f"target), or from the command line with shortlist calibrate --method {kind}"
        )
    if kind in Link.kinds and issubclass(Link.kinds[kind], BasedLink):
        name = Link.kinds[kind].__name__
        raise InputError(f"link: expected a link without a base, got {text!r}: make it in Python with {name}(base, weights)")
    if kind not in Link.kinds:
        named = [name for name, link in Link.kinds.items() if not issubclass(link, BasedLink)]
        known = [*named, "none"]
        raise InputError(f"link: {expected_one_of(kind, known)}; got {text!r}")
    names = Link.kinds[kind].parameter_names
    if len(numbers) > len(names):
        raise InputError(f"link {kind}: expected at most {len(names)} numbers ({', '.join(names)}), got {text!r}")
    try:
        values = [float(number) for number in numbers]
    except ValueError as error:
        raise InputError(f"link {kind}: expected numbers between the colons, got {text!r}") from error
    return Link.kinds[kind](**dict(zip(names, values, strict=False)))
