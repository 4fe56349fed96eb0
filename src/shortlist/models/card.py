"""The model card: what a classifier is, how to use it, what it guarantees and what it cannot do, as Markdown."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shortlist.models.classifier import Classifier
from shortlist.models.network import Network
from shortlist.words import printable

SHOWN_CLASSES = 200
NORMAL_95 = 1.96
MARKUP = re.compile(r"([\\`*_{}\[\]<>|~&$])")
LEADING = re.compile(r"^(\d*)([-+#=.)])")  # what makes a list or a heading at the start of a line


def model_card(classifier: Classifier) -> str:
    """The card of a classifier, Markdown.

    Facts come from ``classifier.about``, if it has them: ``name``, ``data`` and ``method`` (text, or a mapping of text),
    ``numbers`` (a list of ``{"name", "value", "n", "error"}``, the last two optional), ``licence``.
    """
    about = classifier.about
    title = _escaped(about.get("name") or "Classifier that answers with sets of labels")
    sections = [
        f"# {title}",
        _what(classifier),
        "## Use",
        _use(classifier),
        *_told("Data", about.get("data")),
        "## Method",
        _method(classifier),
        *_numbers(about.get("numbers")),
        "## Guarantee",
        _promise(classifier),
        "## Limits",
        _limits(classifier),
        "## Classes",
        _classes(classifier.classes),
        *_told("Licence", about.get("licence") or about.get("license")),
    ]
    return "\n\n".join(sections) + "\n"


def _what(classifier: Classifier) -> str:
    inputs, labels = (
        classifier.inputs,
        "exactly one label" if classifier.single_label else "any number of labels, none included",
    )
    fed = f"pictures of {inputs.size} × {inputs.size} pixels" if inputs.is_pictures else f"rows of {inputs.size} features"
    prepared = f" Pictures of other sizes are prepared like this: {inputs.preparation}." if inputs.is_pictures else ""
    return (
        f"This classifier reads {fed} and predicts a set of labels out of {len(classifier.classes):,} classes. "
        f"It was trained on rows that have {labels}.{prepared}"
    )


def _use(classifier: Classifier) -> str:
    given = '["leaf.jpg", "flower.jpg"]' if classifier.inputs.is_pictures else "features"
    comment = "" if classifier.inputs.is_pictures else f"  # numbers (N, {classifier.inputs.size})"
    file = "leaf.jpg" if classifier.inputs.is_pictures else "rows.csv"
    return "\n".join(
        [
            "```python",
            "from shortlist.models import Classifier",
            f'classifier = Classifier.load("FOLDER"{_code(classifier)})',
            f"print(classifier.predict({given})){comment}",
            "```",
            "",
            "```sh",
            f"shortlist predict FOLDER {file}{_option(classifier)}",
            "```",
        ]
    )


def _code(classifier: Classifier) -> str:
    """The argument of ``load`` for a network that was written elsewhere."""
    network = classifier.network
    return "" if not network.foreign else f', network="{network.factory}"' if network.factory else ", network=…"


def _option(classifier: Classifier) -> str:
    network = classifier.network
    return f" --network {network.factory or 'MODULE:FUNCTION'}" if network.foreign else ""


def _method(classifier: Classifier) -> str:
    network, rule = classifier.network, classifier.rule
    link = "none: the scores cannot be interpreted as probabilities" if classifier.link is None else f"`{classifier.link!r}`"
    weights = sum(weight.numel() for weight in network.parameters())
    lines = [
        f"- {_network(network)}, {weights:,} weights",
        f"- link: {link}",
        f"- rule: {'none' if rule is None else f'`{rule.text}`'}",
    ]
    if rule is not None and rule.calibrated is not None:
        lines.append(f"- calibrated on {rule.calibrated.rows:,} rows, {rule.calibrated.mean:.3g} labels a set")
    lines += [f"- note on the rule: {_escaped(note)}" for note in (rule.notes if rule is not None else ())]
    told = classifier.about.get("method")
    return "\n".join([*lines, *_lines(told if isinstance(told, Mapping) else told and {"method": told})])


def _network(network: Network) -> str:
    """Its parts by name; of one that was written elsewhere, where from."""
    scored = ", scores of its proposal head" if network.scored_head == "proposal" else ""
    if "network" not in network.foreign:
        return f"backbone `{network.backbone_name}`, {network.head_kind} head{scored}"
    return f"network `{network.backbone_name}`" + (f" made by `{network.factory}`" if network.factory else "") + scored


def _numbers(numbers: Any) -> list[str]:
    rows = [row for row in numbers if isinstance(row, Mapping) and "name" in row] if isinstance(numbers, list) else []
    if not rows:
        return []
    lines = ["| number | value | ± (95 %) | rows |", "|---|--:|--:|--:|"]
    for row in rows:
        cells = [_escaped(row["name"]), _shown(row.get("value")), _shown(_half_width(row.get("error"))), _shown(row.get("n"))]
        lines.append(f"| {' | '.join(cells)} |")
    return ["## Numbers", "\n".join(lines)]


def _half_width(error: Any) -> Any:
    """Half the width of the 95 % interval around a number with this standard error, as the report shows it."""
    return NORMAL_95 * error if isinstance(error, int | float) and not isinstance(error, bool) else error


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "–" if value is None else _escaped(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if math.isfinite(value) else "–"


def _promise(classifier: Classifier) -> str:
    if classifier.rule is None:
        return "No guarantee: the classifier has no set rule yet."
    return (
        f"{classifier.rule.guarantee} This does not extend to rows from another source than those that the rule was fitted on "
        "(another place, season or camera)."
    )


def _limits(classifier: Classifier) -> str:
    lines = [
        f"- It knows {len(classifier.classes):,} classes and answers with these whatever it is shown.",
        "- It also answers for inputs unlike its training data; such answers mean little.",
    ]
    if classifier.link is None:
        lines.append("- Its scores are not probabilities: only their order within a row is meaningful.")
    else:
        lines.append("- Its probabilities are only as good as new rows are like those it was fitted on.")
    if classifier.rule is None or not classifier.rule.least:
        lines.append("- A set may be empty, if the rule allows it: no label was plausible enough.")
    counts = classifier.train_counts
    if counts is not None and len(counts):
        never = int((counts == 0).sum())
        lines.append(
            f"- Training examples per class: {counts.min().item():,g} to {counts.max().item():,g}, {never:,} had none."
        )
    return "\n".join(lines)


def _classes(names: Sequence[str]) -> str:
    more = f"\n\n… and {len(names) - SHOWN_CLASSES:,} more in `classes.json`." if len(names) > SHOWN_CLASSES else ""
    return ", ".join(_escaped(name) for name in names[:SHOWN_CLASSES]) + more


def _told(title: str, told: Any) -> list[str]:
    lines = list(_lines(told))
    return [f"## {title}", "\n".join(lines)] if lines else []


def _lines(told: Any) -> Iterable[str]:
    """Text as it is, everything in it escaped; a mapping as a list of its lines."""
    if isinstance(told, Mapping):
        return [f"- {_escaped(name)}: {_escaped(_listed(value))}" for name, value in told.items() if value is not None]
    return [_escaped(_listed(told))] if told else []


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_listed(part)}" for name, part in value.items())
    return ", ".join(_listed(part) for part in value) if isinstance(value, list) else str(value)


def _escaped(text: Any) -> str:
    r"""Text that stays on its line and means nothing to Markdown or HTML.

    >>> print(_escaped("A|B <i> *x*"))
    A\|B \<i\> \*x\*
    """
    return LEADING.sub(r"\1\\\2", MARKUP.sub(r"\\\1", printable(str(text))))
