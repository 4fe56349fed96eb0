"""Every rule and modifier with weights, votes and groups: it is fitted, or refused with a sentence that the docs list."""

import re
from pathlib import Path

import numpy as np
import pytest

import shortlist.sets  # noqa: F401  registers all rules
from shortlist.errors import InputError
from shortlist.sets import by, parse_rule
from shortlist.sets.registry import MODIFIERS, RULES
from tests.sets.cases import CASES, SUPERCLASSES

pytestmark = pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
CHAPTER = Path("docs/rules.md").read_text().partition("## Which rules take weights, votes and groups")[2].partition("\n## ")[0]
PRIOR = np.full(5, 0.2)
MORE = [
    "raps:0.2:auto",
    "aps:0.2:random",
    "learn-then-test:recall=0.5:0.1",
    "top-k:2,gate:0.5",
    "mass:0.2,gate:0.5",
    "lac:0.2,gate:0.5",
    "lac:0.2,cap:2,floor:1,gate:0.5",
    "lac:0.2,by:site",
    "risk-control:recall:0.2,pac:0.1,gate:0.5",
]
TEXTS = sorted({case.make(PRIOR).text for case in CASES} | set(MORE))
KINDS = ("weights", "class_weights", "votes", "by")


def table():
    """What each rule takes, by its name, as the docs say."""
    lines = [line.strip("| ").split(" | ") for line in CHAPTER.splitlines() if line.startswith("| `")]
    return {name.strip("` "): dict(zip(KINDS, cells, strict=True)) for names, *cells in lines for name in names.split(",")}


def words(text):
    """The names of the rule and of its modifiers."""
    return [part.partition(":")[0] for part in text.split(",")]


def taken(text, kind):
    """Whether the docs say that this rule takes weights, votes or groups."""
    names = words(text)
    if "gate" in names and names[0] in ("top-k", "threshold", "mass", "average-k") and kind in ("weights", "votes"):
        return True
    [name] = [name for name in names if name in ("pac", "classwise", "interpolated")] or names[:1]
    cell = table()[name][kind]
    assert cell in ("yes", "no")
    return cell == "yes"


def rows(text, n=400):
    random = np.random.default_rng(0)
    probs = random.dirichlet(np.ones(5), n)
    target = (probs.cumsum(1) > random.uniform(size=(n, 1))).argmax(1)
    marks = np.eye(5, dtype=bool)[target]
    if "gate" in words(text):
        marks[::4] = False
        target = marks
    return probs, target, marks.astype(float), random.uniform(0.5, 2, n), random.choice(["north", "south"], n)


def attempt(text, kinds):
    """Fit and answer."""
    probs, target, votes, weights, site = rows(text)
    rule, given, asked = parse_rule(text, prior=PRIOR, superclasses=SUPERCLASSES), {}, {}
    if "by" in kinds and rule.groups is None:
        rule = by(rule, "site")
    if rule.column == "site":
        given, asked = {"groups": site}, {"groups": site[:9]}
    given |= {"weights": weights} if "weights" in kinds else {}
    given |= {"class_weights": [1, 2, 1, 0.5, 1]} if "class_weights" in kinds else {}
    rule.fit(probs, votes if "votes" in kinds else target, **given)
    assert rule.predict(probs[:9], **asked).shape == (9, 5)


@pytest.mark.parametrize("kinds", [("weights",), ("class_weights",), ("votes",), ("by",), ("weights", "votes"),
                                   ("weights", "by"), ("class_weights", "by"), ("votes", "by")], ids=str)  # fmt: skip
@pytest.mark.parametrize("text", TEXTS)
def test_it_is_taken_or_refused_as_the_docs_say(text, kinds):
    if all(taken(text, kind) for kind in kinds):
        attempt(text, kinds)
        return
    with pytest.raises(InputError) as refused:
        attempt(text, kinds)
    message = str(refused.value)
    assert not re.search(r"[.!?] [A-Z]|\n", message), message
    listed = [
        re.escape(" ".join(phrase.split())).replace("…", ".*") for phrase in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", CHAPTER)
    ]
    assert any(re.search(phrase, message) for phrase in listed), message


def test_every_rule_and_modifier_is_tried():
    tried = {word for text in TEXTS for word in words(text)}
    assert set(RULES) | set(MODIFIERS) <= tried | {"margin", "careful"} | {name for name in RULES if _made_by_tests(name)}
    assert set(table()) <= tried


def _made_by_tests(name):
    """Tests and examples of the docs register rules of their own."""
    return not RULES[name].function.__module__.startswith("shortlist.")


def test_the_docs_know_every_phrase_that_they_quote():
    """At least one rule is refused with each."""
    assert len(re.findall(r"(?<!\*)\*expected", CHAPTER)) >= 9
