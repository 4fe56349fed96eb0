"""A watch as a file."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from shortlist.checks import flag, number, optional, whole
from shortlist.sets.state_files import damage_named, read_state, write_state
from shortlist.shift.alarms import Alarm
from shortlist.shift.betting import Ranks
from shortlist.shift.signals import SIGNALS, UNLABELLED
from shortlist.shift.watch import Watch

FORMAT = "shortlist-watch/1"
COUNTS = ("rows", "labelled", "reference_labelled", "label_since")
SUMS = ("missed", "reference_missed")


def save_watch(watch: Watch, path: str | Path) -> None:
    """Write the watch."""
    tensors = {f"ranks.{name}": torch.from_numpy(ranks.counts) for name, ranks in watch.ranks.items()}
    tensors["recent"] = torch.from_numpy(np.ascontiguousarray(watch.recent))
    for name, bets in watch.bets.items():
        tensors |= {f"bets.{name}.{part}": torch.from_numpy(np.ascontiguousarray(v)) for part, v in bets.state().items()}
    numbers = {
        **{name: getattr(watch, name) for name in (*COUNTS, *SUMS)},
        "several": watch.several,
        "level": watch.level,
        "alarms": [asdict(alarm) for alarm in watch.alarms],
        "sources": watch.sources,
        "contents": watch.contents,
        "names": None if watch.names is None else list(watch.names),
        "label_rows": watch.label_rows,
    }
    write_state(watch.rule, numbers, tensors, path, FORMAT)


def load_watch(path: str | Path) -> Watch:
    """The watch that was written."""
    with damage_named(path, "watch"):
        rule, numbers, tensors = read_state(path, FORMAT)
        watch = Watch(rule, level=numbers["level"])
        for name in COUNTS:
            setattr(watch, name, whole(0)(name, numbers[name]))
        for name in SUMS:
            setattr(watch, name, float(number(least=0)(name, numbers[name])))
        older = False if watch.labelled + watch.reference_labelled else None  # files from when each row had one label
        watch.several = optional(flag)("several", numbers.get("several", older))
        watch.alarms = [Alarm(**alarm) for alarm in numbers["alarms"]]
        watch.sources = [(name, whole(0)("sources", row)) for name, row in numbers["sources"]]
        watch.contents = {str(content): str(name) for content, name in numbers.get("contents", {}).items()}
        watch.names = numbers["names"]
        watch.label_rows = [(row, place, float(missed)) for row, place, missed in numbers["label_rows"]]
        watch.recent = tensors["recent"].numpy().reshape(-1, len(UNLABELLED)).copy()
        for name, bets in watch.bets.items():
            bets.restore({part: tensors[f"bets.{name}.{part}"].numpy() for part in bets.state()})
        if watch.rows or "ranks.class" in tensors:
            watch.ranks = {name: Ranks(0) for name in SIGNALS}
            for name, ranks in watch.ranks.items():
                ranks.counts = tensors[f"ranks.{name}"].numpy().copy()
        return watch
