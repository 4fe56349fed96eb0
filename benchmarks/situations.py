"""What each guarantee costs in size: coverage on average, by calibration, by class and by site, on draws of Flora.

Twenty species in two sites; in the south the classifier is overconfident (its probabilities are cubed). Every calibration has
500 rows of its own, and its coverage is measured on 4,000 others.
"""

import statistics
import warnings

import numpy as np

from benchmarks.harness import record
from benchmarks.marked_tables import write_table
from benchmarks.results_files import foot, newest
from shortlist.data import Flora
from shortlist.metrics import coverage, set_size
from shortlist.sets import SetRule, parse_rule

NAME, PAGE = "situations", "rules.md"
CALIBRATIONS, ROWS, TEST, ASKED = 100, 500, 4_000, 0.9
RULES = (
    "lac:0.1",
    "aps:0.1",
    "raps:0.1:auto",
    "lac:0.1,classwise",
    "lac:0.1,by:site",
    "lac:0.1,pac:0.05",
    "lac:0.1,by:site,pac:0.05",
)
BEGIN, END = "<!-- costs: written by `python -m benchmarks page` -->\n", "<!-- end of costs -->\n"


def run() -> None:
    warnings.simplefilter("ignore")
    found: dict[str, list[dict[str, float]]] = {text: [] for text in RULES}
    for seed in range(CALIBRATIONS):
        probs, target, south = drawn(seed)
        sites = np.where(south, "south", "north")
        fit, test = slice(0, ROWS), slice(ROWS, None)
        for text in RULES:
            rule = parse_rule(text)
            groups = {"groups": sites} if "by:" in text else {}
            rule.fit(probs[fit], target[fit], **{name: part[fit] for name, part in groups.items()})
            sets = rule.predict(probs[test], **{name: part[test] for name, part in groups.items()})
            found[text].append(numbers(rule, sets, target[test], south[test]))
    measured = {
        text: {name: [statistics.mean(each), statistics.stdev(each)] for name, each in by_name(all_of).items()}
        for text, all_of in found.items()
    }
    record(
        NAME, "Flora, 20 species in two sites", {"calibrations": CALIBRATIONS, "rows": ROWS, "test": TEST, "rules": measured}
    )


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, labels, and whether each row is from the south."""
    labels, posterior = Flora(species=20, genera=6, abundance="balanced").observe(ROWS + TEST, seed=seed + 1)
    probs, south = posterior.double().numpy(), np.random.default_rng(seed).random(ROWS + TEST) < 0.5
    probs = np.where(south[:, None], probs**3, probs)
    return probs / probs.sum(1, keepdims=True), labels.numpy(), south


def numbers(rule: SetRule, sets: np.ndarray, target: np.ndarray, south: np.ndarray) -> dict[str, float]:
    share = float(coverage(sets, target))
    return {
        "coverage": share,
        "short": float(share < ASKED),
        "class": float(np.nanmin(coverage(sets, target, average="none"))),
        "site": min(float(coverage(sets[here], target[here])) for here in (south, ~south)),
        "size": float(set_size(sets)),
    }


def by_name(all_of: list[dict[str, float]]) -> dict[str, list[float]]:
    return {name: [one[name] for one in all_of] for name in all_of[0]}


def table() -> str:
    """The table, and what it was measured on; empty without results."""
    lines = newest(NAME)
    if not lines:
        return ""
    line = lines[-1]
    rows = ["| rule | coverage | worst class | worst site | calibrations below 90 % | mean size |", "|---|" + "---:|" * 5]
    for text, found in line["rules"].items():
        shares = [f"{found[name][0]:.1%} ± {found[name][1]:.1%}" for name in ("coverage", "class", "site")]
        size = f"{found['size'][0]:.2f} ± {found['size'][1]:.2f}"
        rows.append(f"| `{text}` | {' | '.join(shares)} | {found['short'][0]:.0%} | {size} |")
    what = (
        f"{line['setting']}, in one of which the classifier is overconfident; {line['calibrations']} calibrations on "
        f"{line['rows']} rows each, measured on {line['test']:,} others; mean ± standard deviation over calibrations. *Worst* "
        "is the lowest of the classes, about 200 rows each, and of the two sites."
    )
    return "\n".join([*rows, "", what, "", foot(line)])


def write() -> None:
    """Put the table into its page."""
    write_table(PAGE, table(), BEGIN, END)
