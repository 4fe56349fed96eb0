"""The section of docs/benchmarks.md about conformal rules beside those of other libraries."""

from typing import Any

from benchmarks.peers import ALPHA, CALIBRATION, NAME
from benchmarks.results_files import foot, newest, ratio

COLUMNS = ("coverage", "size", "worst class", "worst size")
CAPTION = f"""The same probabilities and the same seeded splits for all: {CALIBRATION:,} rows to fit on, the others to answer,
an error of {ALPHA:.0%}. *Worst class* is the lowest coverage of a class, *worst size* the lowest coverage of the rows
with 0–1, 2–3, 4–10, 11–100 labels in their set, of groups of 20 rows and more. Mean and standard deviation over
splits. *Time* is that of the processor for the fit and the sets, as a multiple of our first rule of its kind, median
and range over splits. puncc was installed without its requirements, because it asks for a numpy below 2. TorchCP 1.2 is
not here: it imports torchsort, which could not be built without CUDA.
"""

REASONS = """Where another library is ahead:

- **Time of LAC and top k.** The ratios of mapie are around 1 on tables as small as these, where ours is a fixed
  millisecond or two: most of it checks values and measures the sizes of the sets on the calibration rows, which mapie
  does not. On [larger ones](#lac-fit-and-sets) ours is the fastest.
- **Size of APS on the WideResNet.** Coverage and size go together: the sets of mapie and puncc are smaller by less than
  a standard deviation over splits, and cover less. mapie was given one seed, so that the draws of its calibration are
  the same in all splits; ours follow from the data.
- **Worst class and worst size of APS, RAPS and top k.** Where they are higher, the sets are larger, and coverage is
  further above the one asked for. On Flora many labels of a row have the same probability, of which mapie returns all
  or none; ours takes those of lower index first.
- **RAPS with its penalty chosen.** Both choose k and the penalty, one of the same five, on a fifth of the calibration
  rows. Ours has the smaller sets, with coverage nearer to the one asked for; where mapie's worst class or size is
  higher, its sets are larger. On the WideResNet ours has one label for nearly every row, so that the few rows with more
  are hard ones, and covered less; on Flora it comes near to the k most probable labels, where of equal ones the last
  are left out. Where those matter, take `raps:0.1` or `aps:0.1`. puncc randomises the sets as well, which makes them
  smaller, with a coverage of just what was asked for, as ours are with `:random`.
- **LAC, all classes together and class by class.** puncc's smaller sets on Flora cover less, because it compares 1 - p:
  rounding loses labels whose probability is the threshold itself. crepes keeps a label whose p-value is 10 % where it
  could be left out, since 1 - 0.9 is a little less than 0.1, so its sets by class are a little larger. Thresholds by
  exact fractions give our sets.
- **Worst size** is the lowest of two to four numbers, some of them of few rows: differences within the spread are
  chance.
"""


def section() -> str:
    """The tables, and why a peer is ahead where one is; empty without results."""
    lines = newest(NAME)
    return "\n".join([f"## Beside other libraries\n\n{CAPTION}", *map(_table, lines), REASONS]) if lines else ""


def _table(line: dict[str, Any]) -> str:
    heading = "| rule | | coverage | mean size | worst class | worst size | time |"
    rows = [f"### {line['setting']}", "", heading, "|---|---|" + "---:|" * 5]
    for rule, contenders in line["rules"].items():
        for who, numbers in contenders.items():
            cells = [_cell(name, *numbers[name]) for name in COLUMNS]
            middle, low, high = numbers["time"]
            rows.append(f"| {rule} | {who} | " + " | ".join(cells) + f" | {ratio(middle)} ({ratio(low)}–{ratio(high)}) |")
    return "\n".join([*rows, "", foot(line)])


def _cell(name: str, mean: float, spread: float) -> str:
    return f"{mean:.3f} ± {spread:.3f}" if name == "size" else f"{mean:.1%} ± {spread:.1%}"
