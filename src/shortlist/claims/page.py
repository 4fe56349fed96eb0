"""The page of the claims and the small table of the README, written from a file of results and nothing else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shortlist.claims.claim import Claim, Decision, Interval, PartVerdict, Verdict
from shortlist.claims.conclusions import CONCLUSIONS
from shortlist.claims.experiment import Experiment
from shortlist.claims.menu import CLAIMS, EXPERIMENTS, verdicts
from shortlist.claims.results import Result, Results
from shortlist.recipes import Published, published_numbers
from shortlist.recipes.published import PAPERS
from shortlist.report.table import Table

HEAD = """# What the papers claim, measured

Written by `python -m benchmarks page` from `benchmarks/results/claims.jsonl`; `shortlist reproduce` measures anew
([how](command-line.md#reproducing-claims)). Nothing here is quoted from a paper unless it says so. What follows for the choice
of a method is in [which method](choosing.md).

**How to read it.** A claim is one or more comparisons. Every arm of a comparison is trained with the same seeds, on the same
rows, with the same settings but for the method, and the differences are taken seed by seed. An estimate is their mean with
Student's 95 % interval over n seeds. A comparison *holds* if the interval lies where the claim says, *fails* if it lies where
the claim denies, and is *open* otherwise. A claim holds if all of its comparisons hold, which needs no correction for their
number; it fails if one of them fails at 95 % corrected for their number (Bonferroni); otherwise it is open. Differences are
in percentage points.

**Where.** *Flora* experiments are quick: rows of a [synthetic garden](flora.md#a-table-of-measurements), a small network, a
new garden for each seed; accuracies are those expected under the true class probabilities, which are known, so chance in the
test labels plays no part. They say what a method does with few rows and a small network, not what it does with photographs.
*CIFAR-100* experiments are for a GPU: a ResNet-9 of width 64, trained for 12 epochs (36 on long tails, of fewer rows), which
takes seconds; *wide* ones train one of width 128 for 30. This training was made for cross-entropy, with one
learning rate for all methods, and so short a one favours losses that learn fast. What changes with its length is measured [on
Flora](#beyond-memorising) and [on CIFAR-100](#beyond-memorising-pictures); what learning rates of their own change, [on
CIFAR-100](#beyond-own-rates-noise).
"""
WORDS: dict[Decision, str] = {"holds": "**holds**", "fails": "**fails**", "open": "open"}
NOT_RUN = "not run"
BEYOND = "beyond"


@dataclass(frozen=True)
class Judged:
    """A claim with its verdicts."""

    claim: Claim
    verdicts: Sequence[Verdict]

    def of(self, quick: bool) -> str:
        """The decisions of the quick experiments, or of the others, in words."""
        found = [one for one in self.verdicts if EXPERIMENTS[one.experiment].quick == quick]
        if not found:
            return "–"
        run = [f"{WORDS[one.decision]} (n = {one.n})" for one in found if one.n]
        return ", ".join(run) or NOT_RUN


def judged(results: Results) -> list[Judged]:
    """Every claim with the verdicts that the results give."""
    return [Judged(claim, verdicts(claim, results)) for claim in CLAIMS.values()]


def page_text(results: Results) -> str:
    """The page, in Markdown."""
    found = judged(results)
    parts = [HEAD, *_conclusions(found), "## At a glance\n", _overview(found), ""]
    for paper in dict.fromkeys(one.claim.paper for one in found):
        mine = [one for one in found if one.claim.paper == paper]
        parts += [f"## {paper_name(paper)}", ""]
        if any(verdict.n > 1 for one in mine for verdict in one.verdicts):
            parts += [f"![Estimates and intervals]({plot_name(paper)})", ""]
        parts += [_section(one) for one in mine]
        parts += [_arms(EXPERIMENTS[name], results) for name in _experiments(mine)]
    return "\n".join(part for part in [*parts, _foot(results)] if part is not None).rstrip() + "\n"


def readme_table(results: Results) -> str:
    """How many claims of each paper hold, fail and are open."""
    found = judged(results)
    rows = []
    for paper in dict.fromkeys(one.claim.paper for one in found):
        decisions = [verdict.decision for one in found if one.claim.paper == paper for verdict in one.verdicts if verdict.n]
        rows.append([paper_name(paper), *(decisions.count(word) for word in ("holds", "open", "fails"))])
    return Table(["claims of", "hold", "open", "fail"], rows).markdown()


def paper_name(paper: str) -> str:
    """Authors and year, or what ideas of this project are called."""
    return "Beyond the papers" if paper == BEYOND else PAPERS[paper]


def plot_name(subject: str) -> str:
    """The file of the plot of a paper or a claim, beside the page."""
    return f"images/claims-{subject}.svg"


def _conclusions(found: Iterable[Judged]) -> list[str]:
    """What follows from the verdicts."""
    known = {one.claim.id: one.verdicts for one in found}
    standing = [one.markdown() for one in CONCLUSIONS if one.stands(known)]
    return ["## In one minute\n", *standing, ""] if standing else []


def _overview(found: Iterable[Judged]) -> str:
    rows = [
        [f"[{one.claim.sentence}](#{one.claim.id})", paper_name(one.claim.paper), one.of(True), one.of(False)] for one in found
    ]
    return Table(["claim", "source", "Flora and tables", "on a GPU"], rows).markdown()


def _section(one: Judged) -> str:
    claim = one.claim
    source = f"{paper_name(claim.paper)}, {claim.table}" if claim.table else paper_name(claim.paper)
    parts = [f"### {claim.sentence} {{ #{claim.id} }}", "", f"`{claim.id}`; {source}.", ""]
    for verdict in one.verdicts:
        if verdict.n:
            parts += [f"*{verdict.experiment}*: {WORDS[verdict.decision]}", "", _parts_table(verdict.parts).markdown(), ""]
        else:
            parts += [f"*{verdict.experiment}*: {NOT_RUN}", ""]
    if claim.curves is not None and any(verdict.n > 1 for verdict in one.verdicts):
        parts += [f"![{claim.curves.number} by {claim.curves.xlabel}]({plot_name(claim.id)})", "", claim.curves.caption, ""]
        parts += ["Bands are 95 % intervals over seeds, which differ in their gardens; the differences above are paired.", ""]
    quoted = _published(claim)
    parts += [quoted, ""] if quoted else []
    parts += [claim.remark, ""] if claim.remark else []
    return "\n".join(parts)


def _parts_table(parts: Sequence[PartVerdict]) -> Table:
    rows = []
    for part in parts:
        found = part.interval
        ends = "–" if found is None or found.n == 1 else f"{found.low:+.2f} to {found.high:+.2f}"
        mean = "–" if found is None else f"{found.mean:+.2f}"
        rows.append([part.part.name, 0 if found is None else found.n, mean, ends, str(part.part.rule), part.decision])
    return Table(["", "n", "estimate", "95 % interval", "rule", ""], rows, flush_right=[False, *[True] * 3, False, False])


def quoted_numbers(claim: Claim) -> list[Published]:
    """The published numbers that a claim is about."""
    wanted = {name: value if isinstance(value, tuple) else (value,) for name, value in claim.published.items()}
    return [
        number for number in published_numbers() if wanted and all(getattr(number, name) in wanted[name] for name in wanted)
    ]


def _published(claim: Claim) -> str:
    """The paper's numbers in one line: what all share first, then by method what distinguishes them."""
    found = quoted_numbers(claim)
    if not found:
        return ""
    columns = [[number.quantity, *_settings(found, number), f"p = {number.noise:g}"] for number in found]
    varying = [place for place in range(len(columns[0])) if len({column[place] for column in columns}) > 1]
    shared = [cell for place, cell in enumerate(columns[0]) if place not in varying and cell not in ("", "p = 0")]
    lines: dict[str, list[str]] = {}
    for number, column in zip(found, columns, strict=True):
        which = ", ".join(column[place] for place in varying if column[place])
        lines.setdefault(number.printed, []).append(f"{which}: {number.value:g}" if which else f"{number.value:g}")
    said = "; ".join(f"*{printed}* {', '.join(values)}" for printed, values in lines.items())
    where = ", ".join([found[0].dataset, found[0].backbone, *shared])
    return f"<small>Published ({where}): {said}.</small>"


def _settings(found: Sequence[Published], number: Published) -> list[str]:
    """A cell for each setting that varies among the numbers that a paper gives under one name."""
    mine = [other for other in found if other.printed == number.printed]
    names = dict.fromkeys(name for other in found for name in other.settings)
    varying = {name for name in names if len({other.settings.get(name) for other in mine}) > 1}
    return [f"{name} {number.settings[name]}" if name in varying and name in number.settings else "" for name in names]


def _experiments(found: Iterable[Judged]) -> list[str]:
    return list(dict.fromkeys(verdict.experiment for one in found for verdict in one.verdicts if verdict.n))


def _arms(experiment: Experiment, results: Results) -> str:
    """What every arm reached: mean and half-width over seeds, and how far it is from the best possible."""
    found = results.of(experiment)
    names = [name for name in experiment.shows if any(name in result.numbers for result in found)]
    if not names:
        return ""
    rows = []
    for arm in experiment.arms:
        mine = [result for result in found if result.arm == arm]
        if mine:
            rows.append([arm, len(mine), *(_cell(mine, name) for name in names)])
    title = f"#### {experiment.id}: {experiment.what}"
    note = (
        "Mean over seeds ± half-width of the 95 % interval; in brackets the distance to the best possible, where it is known."
    )
    cost = f"{sum(result.cpu_seconds for result in found):.0f} s of processor time."
    table = Table(["arm", "n", *names], rows, flush_right=[False, *[True] * (len(names) + 1)])
    return "\n".join([title, "", table.markdown(), "", f"<small>{note} {cost}</small>", ""])


def _cell(found: Sequence[Result], name: str) -> str:
    values = [result.numbers[name] for result in found if name in result.numbers]
    if not values:
        return "–"
    interval = Interval.of(values)
    spread = f" ± {interval.high - interval.mean:.2f}" if interval.n > 1 else ""
    best = [result.numbers[f"{name.split(' ')[0]} best"] for result in found if f"{name.split(' ')[0]} best" in result.numbers]
    comparable = best and not name.endswith(("size", "singles", "few", "medium", "many")) and not name.startswith("macro")
    away = f" ({sum(best) / len(best) - interval.mean:.2f})" if comparable else ""
    return f"{interval.mean:.2f}{spread}{away}"


def _foot(results: Results) -> str:
    found = list(results)
    if not found:
        return "<small>No results yet.</small>"
    machines = "; ".join(dict.fromkeys(result.machine for result in found))
    days = sorted({result.date for result in found})
    torch = ", ".join(sorted({str(result.versions.get("torch")) for result in found}))
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"<small>{len(found):,} results, {span}; {machines}; torch {torch}.</small>"
