"""Labels: from the votes of the page to a dataset of validated labels, which ``train`` takes."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shortlist.csv_files import write_csv_frame
from shortlist.data.votes import Aggregation, Votes
from shortlist.errors import InputError
from shortlist.files import folder_written_whole
from shortlist.web.votes import Observation, VoteStore

if TYPE_CHECKING:
    import pandas as pd

NONE_OF_THESE = "(none of these)"  # what a vote for no class is aggregated as, unless a class is called so
PICTURES, LABELS = "pictures", "labels.csv"


@dataclass(frozen=True, eq=False)
class PageVotes:
    """The votes of the page, and what they are about.

    Args:
        votes: for aggregation; "not sure" is no vote, "none of these" is one for ``none``.
        observations: by id, without pictures.
        unsure: how many said that they are not sure.
        none: what "none of these" is called among the labels, which no class is.
    """

    votes: Votes
    observations: dict[str, Observation]
    unsure: int
    none: str

    def settled(self, result: Aggregation) -> Aggregation:
        """What these votes amount to, where an item that is none of the classes has no valid label."""
        return replace(result, valid=result.valid & (result.labels[result.label] != self.none))


def read_votes(store: VoteStore) -> PageVotes:
    """The votes of a file."""
    observations = {one.id: one for one in store.observations()}
    rows = [(name, vote) for name, one in observations.items() for vote in one.votes]
    given = [(name, vote) for name, vote in rows if vote.choice != "unsure"]
    if not given:
        raise InputError(f"{store.path}: expected votes for a class, or for none of them, got none")
    none = _unlike({vote.label for _, vote in given})
    votes = Votes.from_arrays(
        user=[vote.voter for _, vote in given],
        item=[name for name, _ in given],
        label=[none if vote.label is None else vote.label for _, vote in given],
        author=[vote.author for _, vote in given],
    )
    return PageVotes(votes, observations, len(rows) - len(given), none)


def _unlike(labels: Collection[str | None]) -> str:
    """A name for "none of these" that no label has."""
    name = NONE_OF_THESE
    while name in labels:
        name = f"({name})"
    return name


def write_dataset(store: VoteStore, result: Aggregation, folder: str | Path) -> "pd.DataFrame":
    """Write the photographs and a table of their labels, whole or not at all; ``train FOLDER/labels.csv`` takes it.

    Columns: path, label, valid, support, confidence, tied, group. Photographs of one individual have one label and one group,
    so that they stay in one split. A label is valid if its votes made it so and it is a class: ``train`` leaves others out.

    Args:
        store: the votes.
        result: what they amount to.
        folder: a new folder.
    """
    import pandas as pd

    rows, result = [], read_votes(store).settled(result)
    with folder_written_whole(folder) as new:
        (new / PICTURES).mkdir()
        for entry in result.frame().to_dict("records"):
            named = {**entry, "group": entry["item"]}
            for place, jpeg in enumerate(store.pictures_of(str(entry["item"]))):
                path = f"{PICTURES}/{entry['item']}-{place}.jpg"
                (new / path).write_bytes(jpeg)
                rows.append({"path": path, **{name: value for name, value in named.items() if name != "item"}})
        table = pd.DataFrame(rows)
        with (new / LABELS).open("w", encoding="utf-8", newline="") as file:
            write_csv_frame(table, file)
    return table
