"""Small groups: their own threshold, the common one, or one in between, on draws of Flora with four sites.

In some of the sites the classifier is overconfident: its probabilities are squared or cubed. Coverage is measured on 1,000
others of each site.
"""

import statistics
import warnings

import numpy as np

from benchmarks.harness import record
from benchmarks.marked_tables import write_table
from benchmarks.results_files import foot, newest
from shortlist.data import Flora
from shortlist.sets import parse_rule

NAME, PAGE = "small-groups", "rules.md"
CALIBRATIONS, TEST, ASKED = 200, 1_000, 0.9
SITES = ("north", "south", "east", "west")
SETTINGS = {  # the calibration rows of each site, and the powers of its probabilities
    "one large site, small ones differ": ((400, 50, 30, 20), (1, 3, 2, 1)),
    "two large sites differ, small ones are like them": ((250, 250, 25, 25), (1, 3, 3, 1)),
    "all sites are alike": ((400, 50, 30, 20), (1, 1, 1, 1)),
}
RULES = (
    "lac:0.1",
    "lac:0.1,by:site",
    "lac:0.1,by:site:30",
    "lac:0.1,by:site:50",
    "lac:0.1,by:site:1:5",
    "lac:0.1,by:site:1:10",
    "lac:0.1,by:site:1:20",
    "lac:0.1,by:site:1:40",
)
BEGIN, END = "<!-- small groups: written by `python -m benchmarks page` -->\n", "<!-- end of small groups -->\n"


def run() -> None:
    warnings.simplefilter("ignore")
    for setting, (rows, powers) in SETTINGS.items():
        found: dict[str, list[tuple[list[float], list[float]]]] = {text: [] for text in RULES}
        for seed in range(CALIBRATIONS):
            probs, target, site = drawn(seed, rows, powers)
            fit, test = slice(0, sum(rows)), slice(sum(rows), None)
            for text in RULES:
                rule = parse_rule(text)
                by = "by:" in text
                rule.fit(probs[fit], target[fit], **({"groups": site[fit]} if by else {}))
                sets = rule.predict(probs[test], **({"groups": site[test]} if by else {}))
                hit = sets[np.arange(len(sets)), target[test]]
                here = [site[test] == name for name in SITES]
                found[text].append(([float(hit[own].mean()) for own in here], [float(sets[own].sum(1).mean()) for own in here]))
        record(
            NAME,
            setting,
            {
                "calibrations": CALIBRATIONS,
                "sites": rows,
                "powers": powers,
                "test": TEST,
                "rules": {text: numbers(all_of) for text, all_of in found.items()},
            },
        )


def drawn(seed: int, rows: tuple[int, ...], powers: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, labels and sites: calibration rows, then the others."""
    place = np.concatenate([np.repeat(range(len(SITES)), rows), np.repeat(range(len(SITES)), TEST)])
    labels, posterior = Flora(species=20, genera=6, abundance="balanced").observe(len(place), seed=seed + 1)
    probs = posterior.double().numpy() ** np.array(powers)[place][:, None]
    return probs / probs.sum(1, keepdims=True), labels.numpy(), np.array(SITES)[place]


def numbers(found: list[tuple[list[float], list[float]]]) -> dict[str, object]:
    covered, size = np.array([each for each, _ in found]), np.array([each for _, each in found]).mean(1)
    worst = covered.min(1)
    return {
        "sites": covered.mean(0).tolist(),
        "worst": [statistics.mean(worst), statistics.stdev(worst)],
        "distance": float(np.sqrt(((covered - ASKED) ** 2).mean())),
        "size": [statistics.mean(size), statistics.stdev(size)],
    }


def table() -> str:
    """The table, and what it was measured on; empty without results."""
    lines = newest(NAME)
    if not lines:
        return ""
    rows = [
        "| | rule | lowest expected coverage | worst site of a calibration | distance from 90 % | mean size |",
        "|---|---|" + "---:|" * 4,
    ]
    for line in lines:
        for text, found in line["rules"].items():
            worst, size = found["worst"], found["size"]
            setting = f"{line['setting']} ({', '.join(map(str, line['sites']))} rows)" if text == RULES[0] else ""
            rows.append(
                f"| {setting} | `{text}` | {min(found['sites']):.1%} | {worst[0]:.1%} ± {worst[1]:.1%} | "
                f"{found['distance']:.1%} | {size[0]:.2f} ± {size[1]:.2f} |"
            )
    line = lines[-1]
    what = (
        "Flora, 20 species in four sites; in some the classifier is overconfident (its probabilities are cubed or squared). "
        f"{line['calibrations']} calibrations, measured on {line['test']:,} others of each site, sites counting alike; ± "
        "standard deviation over calibrations. *Lowest expected*: the lowest of the four means over calibrations; *distance*: "
        "the root mean square, over sites and calibrations, of the coverage minus 90 %."
    )
    return "\n".join([*rows, "", what, "", foot(line)])


def write() -> None:
    """Put the table into its page."""
    write_table(PAGE, table(), BEGIN, END)
