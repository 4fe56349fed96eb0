"""Takes the batteries in turn until the time is over, and prints how to repeat what failed."""

import random
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.fuzz import exactness, files, folders, formats, kills, metrics, queries, rules, texts

Battery = Callable[[random.Random, Path], None]

BATTERIES: dict[str, Battery] = {
    "rules": rules.rule_equals_its_definition,
    "rule-texts": texts.rule_text_is_a_rule_or_refused,
    "link-texts": texts.link_text_is_a_link_or_refused,
    "metrics": metrics.metric_equals_its_definition,
    "bad-values": metrics.bad_values_are_refused,
    "queries": queries.ranking_is_exact,
    "query-texts": queries.text_is_a_query_or_refused,
    "equal-rows": exactness.equal_probabilities_stay_equal,
    "votes": exactness.votes_equal_fractions,
    "conditions": exactness.conditions_hold_at_ties,
    "formats": formats.numbers_do_not_depend_on_the_file,
    "folders": folders.folder_equals_one_file,
    "files": files.damaged_file_is_read_or_refused,
    "flipped-bits": files.flipped_bit_is_refused_or_harmless,
    "killed-index": kills.index_survives_a_kill,
    "killed-training": kills.training_survives_a_kill,
}
SHOWN = 3  # failures of one battery that are printed
CASE_SECONDS = 120  # a case that takes longer hangs


def try_all(names: Sequence[str], seed: int, seconds: float) -> int:
    """Run batteries in turn; 1 if something failed."""
    print(f"seed {seed}, {seconds:g} seconds, {', '.join(names)}", flush=True)
    end, tried, failed, spent = time.monotonic() + seconds, Counter(), Counter(), Counter()
    while time.monotonic() < end:
        # The battery that has had the least time is next, so that each has the same share.
        name = min(names, key=lambda name: spent[name])
        start = time.monotonic()
        text = failure(name, seed, tried[name])
        spent[name] += time.monotonic() - start
        failed[name] += text is not None
        if text is not None and failed[name] <= SHOWN:
            print(f"\npython -m tests.fuzz {name} --seed {seed} --case {tried[name]}\n{text}", flush=True)
        tried[name] += 1
    for name in names:
        print(f"{name:16} {tried[name]:7} cases, {failed[name]} failed")
    return int(any(failed.values()))


def failure(name: str, seed: int, number: int) -> str | None:
    """The traceback of one case of a battery, if it fails or hangs."""
    draw = random.Random(f"{seed} {name} {number}")
    before = signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(CASE_SECONDS)
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            BATTERIES[name](draw, Path(folder))
    except Exception:
        return traceback.format_exc()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


def _hangs(*_: Any) -> None:
    raise TimeoutError(f"a case took more than {CASE_SECONDS} seconds")
