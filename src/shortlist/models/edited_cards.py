"""Model cards that a person edited, kept beside the next one when a classifier is written again."""

import hashlib
import re
from itertools import count
from pathlib import Path

from shortlist.errors import InputError

OLD_CARDS = re.compile(r"README\.old(\.[0-9]+)?\.md")


def is_old_card(name: str) -> bool:
    """Whether a file of this name is a card that was kept."""
    return OLD_CARDS.fullmatch(name) is not None


def digest_of_card(content: bytes) -> str:
    """Digest of a card, however its lines end."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()[:32]


def edited_cards(path: Path, name: str, card: str, written: str | None) -> tuple[dict[str, bytes], str | None]:
    """What to keep of the cards in the folder of a classifier that is replaced, by name; and the name of one edited since.

    Args:
        path: the folder.
        name: of the card in it.
        card: the new one.
        written: the digest of the one there as it was written; without, it is taken for edited if it is not the new one.
    """
    try:
        kept = {entry.name: entry.read_bytes() for entry in sorted(path.iterdir()) if is_old_card(entry.name)}
        there = (path / name).read_bytes() if (path / name).is_file() else None
    except OSError as error:
        raise InputError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    if there is None or digest_of_card(there) in (digest_of_card(card.encode()), written):
        return kept, None
    own = next((old for old, content in kept.items() if content == there), None)
    own = own or next(free for n in count(1) if (free := f"README.old{'' if n == 1 else f'.{n}'}.md") not in kept)
    return kept | {own: there}, own
