"""What ``shortlist data info`` says of a folder of parts."""

import json
from pathlib import Path

from shortlist.cli.console import emit, say
from shortlist.predictions.sharded import ShardedPredictions
from shortlist.words import counted


def describe_parts(folder: Path, check: bool, as_json: bool) -> None:
    """Describe the scores in a folder of parts; a check reads every file, and an error names the first that is damaged."""
    found = ShardedPredictions.open(folder)
    if check:
        found.verify()
    parts, form = found.manifest.parts or (), found.without_rows()
    problems = sum(part.problems for part in parts)
    if as_json:
        record = {
            "rows": len(found),
            "parts": len(parts),
            "bytes": sum(part.bytes for part in parts),
            "classes": form.num_classes,
            "labels": None if form.target is None else "one" if form.target.ndim == 1 else "any number",
            "network": form.network_digest,
            "problems": problems,
            "checked": check,
        }
        return emit(json.dumps(record, ensure_ascii=False, indent=2) + "\n")
    say(f"{folder}: {found!r}, {counted(problems, 'row')} not scored")
    if check:
        say(f"{counted(len(parts), 'part')} read: their checksums are those that were noted when they were written")
    return None
