"""Fitted links beside those of other libraries, as tables of docs/benchmarks.md and docs/links.md."""

import statistics
from typing import Any

from benchmarks.link_contenders import ALONE, CENTRED, FLOOR, GIVEN, RAISED, RIVALS
from benchmarks.marked_tables import write_table
from benchmarks.results_files import foot, newest

INTRO = (
    "Fitted links, one label per row: two CIFAR-10 networks of ten classes, and Flora, 20 species, whose true probabilities "
    "were cubed and divided by their sum, so that the temperature 3 is right and the best log-loss is known. Probabilities in "
    "float32, fitted on n random rows, measured on 5,000 others. Mean over splits, ± half the range. Log-loss takes 1e-12 for "
    "probabilities that are exactly 0, which are counted; ECE is that of the top label, 15 bins of equal width; the Brier "
    "score is summed over labels. Times are those of the processor: of the fit, and of the probabilities of the 5,000 rows; "
    "venn-abers fits when it answers. betacal is for two classes: each against the rest, divided by their sum. Dirichlet "
    "calibration of others is missing, because netcal has none and dirichletcal 0.3 cannot be installed (its list of "
    "requirements lacks commas); scikit-learn's logistic regression on log p, with its own penalty, stands for it."
)
REASONS = """Why, for those that are more than chance:

- **Expected calibration error of Platt, beta and isotonic on few rows of the WideResNet.** Their probabilities are held away
  from 0 and 1: Platt and beta by Platt's targets, (n₊ + 1)/(n₊ + 2) with about ten rows of a label, isotonic by a row of the
  other outcome at each end. That makes a network that is right in nine rows of ten look too modest, which the ECE counts, and
  keeps one exception from costing everything, which the log-loss counts: there ours are ahead. On so few rows, temperature,
  vector scaling and Dirichlet calibration are better than all of these by every measure.
- **Platt beside scikit-learn's sigmoid on log p.** log p cannot exceed 0, so that the line is flat where the network is sure:
  on few rows it varies less, on 5,000 it cannot follow, and ours is ahead.
- **Beta beside netcal on 5,000 rows.** Its beta calibration is one softmax with three numbers for each label, fitted to all
  labels at once; ours fits each label against the rest, as betacal does, and has its numbers there. For one softmax there are
  vector scaling and Dirichlet calibration, and the second is ahead of it in every setting but Flora.
- **Platt and beta on Flora.** Six of ten probabilities are exactly 0 there, and rightly so. Ours count as 2⁻¹⁴⁹, and targets of
  Platt's kind say one in n₋ + 2: a line through such points is flat. betacal and netcal put them near 10⁻¹⁶ and take 0 for a
  target, which is right on Flora and costs much where a 0 is wrong. *p raised to 2e-16* is ours with their zeros: most of
  the difference is gone, for Platt and Dirichlet calibration as well. Temperature does not mind zeros, and `auto` chooses it.
- **Venn–Abers one against the rest.** The same method: given log-odds one by one, ours has its numbers to the last digits. It
  takes probabilities that were rounded to 1 as ties; ours tells them apart by the others of the row.
- **Temperature beside scikit-learn on Flora.** It adds 1e-12 to p before the logarithm, which moves the temperature: a larger
  log-loss (1.061, ours and netcal's 1.060) with an ECE that is smaller by a thousandth.
- **`auto`** stands beside the temperatures of others. It was behind them on 100 rows of the WideResNet (0.325 against 0.285)
  while it left the probabilities as they are wherever that was within a standard error of the best.
"""
COLUMNS = {"log-loss": ("nll", 3), "ECE": ("ece", 3), "Brier": ("brier", 3)}
MEASURES = {"nll": "log-loss", "ece": "ECE", "brier": "Brier"}
LEAST = 0.0005  # a difference that is told
PAGE, BEGIN, END = "links.md", "<!-- which link: written by `python -m benchmarks page` -->\n", "<!-- end of which link -->\n"
SHOWN = {
    FLOOR: "the true probabilities",
    GIVEN: "none: the probabilities as they are",
    "shortlist temperature": "`Temperature`",
    "shortlist platt": "`Platt`",
    f"shortlist platt{RAISED}": f"`Platt`{RAISED}",
    "scikit-learn sigmoid on log p": "scikit-learn's sigmoid on log p",
    ALONE: "`Platt` on log-odds of each p by itself",
    "shortlist beta": "`Beta`",
    f"shortlist beta{RAISED}": f"`Beta`{RAISED}",
    "shortlist vector-scaling": "`VectorScaling`",
    "shortlist dirichlet": "`Dirichlet`",
    f"shortlist dirichlet{RAISED}": f"`Dirichlet`{RAISED}",
    "shortlist isotonic": "`Isotonic`",
    "scikit-learn isotonic": "isotonic without pseudo-counts (scikit-learn), cut to 1e-12",
    CENTRED: "centred isotonic with pseudo-counts",
    "shortlist venn-abers": "`VennAbers`",
    "shortlist auto": "`choose_link`",
}


def section() -> str:
    """A table for each data and number of rows, and where other libraries are ahead."""
    lines = _lines()
    if not lines:
        return ""
    parts = ["## Fitted links", "", INTRO, "", *(part for line in lines for part in (_table(line), "", _foot(line)))]
    return "\n".join([*parts, *_ahead(lines), REASONS])


def _lines() -> list[dict[str, Any]]:
    """The newest results, data by data, Flora last, the fewest rows first."""
    return sorted(newest("links"), key=lambda line: (_data(line).startswith("flora"), _data(line), _rows(line)))


def _foot(line: dict[str, Any]) -> str:
    names = " · ".join(line.get("again", []))
    again = f"; measured at commit {line['others_at']}, all but {names}" if names else ""
    return foot(line | {"note": line.get("note", "") + again})


def _data(line: dict[str, Any]) -> str:
    return line["setting"].rpartition(", ")[0]


def _rows(line: dict[str, Any]) -> int:
    return int(line["setting"].rpartition(", ")[2].split()[0].replace(",", ""))


def _table(line: dict[str, Any]) -> str:
    heads = ["", *COLUMNS, "true labels with probability 0", "fit, ms", "answers, ms"]
    rows = [
        f"### {line['setting']}, {line['splits']} splits",
        "",
        f"| {' | '.join(heads)} |",
        "|---|" + "---:|" * (len(heads) - 1),
    ]
    for name, splits in sorted(line["contenders"].items(), key=lambda one: _place(one[0])):
        called = name if len(splits) == line["splits"] else f"{name} ({len(splits)} splits)"
        cells = [_cell([split[key] for split in splits], digits) for key, digits in COLUMNS.values()]
        zeros = statistics.mean(split["zeros"] for split in splits)
        times = (1e3 * statistics.median(split[key] for split in splits) for key in ("fit_s", "answer_s"))
        rows.append(f"| {called} | {' | '.join(cells)} | {zeros:.0f} | {' | '.join(f'{time:.1f}' for time in times)} |")
    return "\n".join(rows)


def _place(name: str) -> tuple[bool, bool]:
    """The truth and what is given come first, then ours."""
    return name not in (FLOOR, GIVEN), not name.startswith("shortlist")


def _cell(values: list[float], digits: int) -> str:
    return f"{statistics.mean(values):.{digits}f} ± {(max(values) - min(values)) / 2:.{digits}f}"


def _ahead(lines: list[dict[str, Any]]) -> list[str]:
    """Where a link of the same kind in another library has the smaller mean, by more than chance and than a trifle."""
    rows, chance = [], 0
    for line in lines:
        for ours, rival, measure in _pairs(line):
            behind, error = _difference(line["contenders"][ours], line["contenders"][rival], measure)
            if behind <= 0:
                continue
            if behind <= max(2 * error, LEAST):
                chance += 1
                continue
            mean = statistics.mean(split[measure] for split in line["contenders"][ours])
            cells = [line["setting"], MEASURES[measure], ours, rival, f"{mean:.4f}", f"{behind:.4f} ± {error:.4f}"]
            rows.append(f"| {' | '.join(cells)} |")
    heads = "| data, rows | | ours | the other | ours is | and behind by |"
    told = f"In {chance} more it is ahead by less than that."
    return [
        "### Where another library is ahead",
        "",
        "Each of our links beside those of its kind: where the other has the smaller mean, by more than twice the standard "
        f"error of the difference, split by split, and more than {LEAST}. {told}",
        "",
        heads,
        "|---|---|---|---|---:|---:|",
        *rows,
        "",
    ]


def _pairs(line: dict[str, Any]) -> list[tuple[str, str, str]]:
    known = line["contenders"]
    found = ((ours, rival) for ours, rivals in RIVALS.items() for rival in rivals)
    return [(*pair, measure) for pair in found for measure in MEASURES if pair[0] in known and pair[1] in known]


def _difference(ours: list[dict[str, float]], theirs: list[dict[str, float]], measure: str) -> tuple[float, float]:
    """Ours less theirs on the same splits, the mean and its standard error."""
    more = [own[measure] - other[measure] for own, other in zip(ours, theirs, strict=False)]
    return statistics.mean(more), statistics.stdev(more) / len(more) ** 0.5


def which_link() -> str:
    """Log-loss and Brier score of each link on 500 and 5,000 rows; empty without results."""
    lines = [line for line in _lines() if _rows(line) >= 500]
    if not lines:
        return ""
    heads = ["link", *(line["setting"].removesuffix(" rows").replace("-cifar-10", "") for line in lines)]
    rows = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * len(lines)]
    for name, called in SHOWN.items():
        cells = [_scores(line["contenders"].get(name, [])) for line in lines]
        rows.append(f"| {called} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", foot(lines[-1])])


def _scores(splits: list[dict[str, float]]) -> str:
    if not splits:
        return ""
    loss, brier = (statistics.mean(split[key] for split in splits) for key in ("nll", "brier"))
    return f"{loss:.3f} ({brier:.3f})"


def write() -> None:
    """Put the table of links into its page."""
    write_table(PAGE, which_link(), BEGIN, END)
