"""The label lists of Mulan: XML files with one element ``label`` for each label, nested where labels have a hierarchy."""

from collections import Counter
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from shortlist.errors import InputError
from shortlist.words import printable

MOST_BYTES = 2**26


def read_label_names(path: str | Path) -> list[str]:
    """The name of every label, inner nodes of a hierarchy included, in the order of the file.

    With the namespace ``http://mulan.sourceforge.net/labels`` or none (tsoumakas/mulan, ``labels.xsd``). Files that declare a
    document type are refused, so that nothing in them is ever expanded.
    """
    path = Path(path)
    file = printable(path.name)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{printable(str(path))}: expected an XML file of labels: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise InputError(f"{file}: expected a list of labels, got {len(content):,} bytes")
    names: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(" ")[2] != "label":
            return
        if "name" not in attributes:
            raise InputError(f"{file}: expected a name for every label, got none in line {parser.CurrentLineNumber}")
        names.append(attributes["name"])

    def refuse(*_: object) -> NoReturn:
        raise InputError(f"{file}: expected plain labels, got a document type declaration, which is refused")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = start, refuse
    try:
        parser.Parse(content, True)
    except InputError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two of encodings that it names
        raise InputError(f"{file}: cannot be read as XML: {error}") from error
    if not names:
        raise InputError(f"{file}: expected elements called label, got none")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{file}: expected labels with different names, got {twice!r} more than once")
    return names
