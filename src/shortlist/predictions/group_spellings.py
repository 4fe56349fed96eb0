"""Which group a text stands for: 3.0 is the group 3, or 3 the group 3.0, and 12:30 the group 12:30:00, unless one is spelt so.

A column is read as numbers, truth values or times if all its cells are such. So the same cell may be a group of a typed column
in one file and a text in another, and has to find its group from the cell alone, whatever is beside it.
"""

import re
from collections.abc import Container
from datetime import UTC, datetime, timedelta, timezone

from shortlist.predictions.columns import is_plain_number, name_of_number

TRUTHS = {spelling: name for name in ("True", "False") for spelling in (name, name.lower(), name.upper())}
INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
HOUR, SIXTIETH = "(?:[01][0-9]|2[0-3])", ":[0-5][0-9]"  # of an hour, and of a minute
CLOCK = re.compile(f"{HOUR}(?:{SIXTIETH}){{1,2}}")
MOMENT = re.compile(
    "(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    f"(?:[ T](?P<time>{HOUR}(?:{SIXTIETH}(?:{SIXTIETH}(?P<fraction>[.][0-9]{{1,9}})?)?)?)"
    "(?P<zone>Z|[+-][0-9]{2}(?::?[0-5][0-9])?)?)?"
)
MIDNIGHT = "00:00:00"


def group_of(text: str, known: Container[str]) -> str | None:
    """The group that a text stands for: the one spelt so, else that of the number, truth value or time; None if there is none.

    Args:
        text: an entry of a column.
        known: the groups.

    >>> [group_of(text, {"3", "1.10", "True", "12:30:00"}) for text in ("1.10", "1.1", "3.0", "3.00", "TRUE", "12:30", "x")]
    ['1.10', None, '3', None, 'True', '12:30:00', None]
    >>> group_of("3", {"3.0", "north"})
    '3.0'
    """
    if text in known:
        return text
    return next((name for name in _other_names(text) if name in known), None)


def _other_names(text: str) -> list[str]:
    """What an entry may be called if not as it is spelt; 3.0 is what programs make of 3 beside missing numbers."""
    name = name_of_number(text) if is_plain_number(text) else name_of_value(text)
    if name is None:
        return []
    return [name, f"{name}.0"] if name.removeprefix("-").isdecimal() else [name]


def name_of_value(text: str) -> str | None:
    """What an entry that is no number is called in a column of truth values, times or infinite numbers; None for other texts.

    >>> name_of_value("TRUE"), name_of_value("12:30"), name_of_value("2024-05-01"), name_of_value("2024-05-01T12:30:10.5+02:00")
    ('True', '12:30:00', '2024-05-01 00:00:00', '2024-05-01 10:30:10.500000+00:00')
    """
    if text in TRUTHS:
        return TRUTHS[text]
    if INFINITE.fullmatch(text):
        return repr(float(text))
    if CLOCK.fullmatch(text):
        return _with_seconds(text)
    found = MOMENT.fullmatch(text)
    return None if found is None else _name_of_moment(found)


def _with_seconds(time: str) -> str:
    return time + MIDNIGHT[len(time) :]


def _name_of_moment(found: re.Match[str]) -> str | None:
    """What a date with or without a time is called in a column of times, in UTC where a zone is written."""
    date, time, fraction, zone = found.group("date", "time", "fraction", "zone")
    try:
        moment = datetime.fromisoformat(f"{date} {_with_seconds((time or '').partition('.')[0])}")
        if zone is not None:
            moment = moment.replace(tzinfo=_zone(zone)).astimezone(UTC)
    except (ValueError, OverflowError):  # such as 30 February
        return None
    digits = "" if fraction is None else fraction[1:].ljust(9, "0")
    parts = "" if not digits.strip("0") else f".{digits.removesuffix('000')}"
    return f"{moment.replace(tzinfo=None)}{parts}{'' if zone is None else '+00:00'}"


def _zone(written: str) -> timezone:
    if written == "Z":
        return UTC
    hours, minutes = int(written[1:3]), int(written[3:].lstrip(":") or 0)
    return timezone(timedelta(hours=hours, minutes=minutes) * (-1 if written[0] == "-" else 1))
