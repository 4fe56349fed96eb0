"""The rules that every law is tried on. A new one is a line in CASES, or below if rows must be in one place or have a site."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shortlist import sets
from shortlist.sets import SetRule
from tests.references import learn_then_test as literal, sets as ref


@dataclass(frozen=True)
class Data:
    """Calibration rows with their labels, new rows, a class prior, and the site of each row."""

    calibration: np.ndarray
    target: np.ndarray
    new: np.ndarray
    prior: np.ndarray
    site: np.ndarray
    new_site: np.ndarray


@dataclass(frozen=True)
class Case:
    """How a rule is made from a prior, and the sets that the literal formula gives for the new rows."""

    name: str
    make: Callable[[np.ndarray], SetRule]
    reference: Callable[[Data], np.ndarray]
    many_labels: bool = False
    drawn: bool = False  # random numbers follow from the calibration rows to the last bit, or from their order
    by_site: bool = False  # whether the rule has a threshold for each site

    def __str__(self):
        return self.name

    def given(self, data, rows=slice(None)):
        """What is given with calibration rows."""
        return {"groups": data.site[rows]} if self.by_site else {}

    def asked(self, data, rows=slice(None)):
        """What is given with new rows."""
        return {"groups": data.new_site[rows]} if self.by_site else {}


def draw(many_labels=False, *, rows=150, classes=5, seed=0) -> Data:
    """Rows without ties, each class with about 30 labels."""
    random = np.random.default_rng(seed)
    prior = random.uniform(0.5, 1.5, classes) / classes

    def probs(n):
        return random.uniform(size=(n, classes)) if many_labels else random.dirichlet(np.ones(classes), n)

    calibration = probs(rows)
    if many_labels:
        target = random.uniform(size=calibration.shape) < calibration
    else:
        target = np.array([random.choice(classes, p=row) for row in calibration])
    sites = np.random.default_rng([seed, 1])
    site, new_site = (sites.choice([1, 2, 3], n, p=[0.5, 0.45, 0.05]) for n in (rows, 60))  # the last has about seven rows
    return Data(calibration, target, probs(60), prior, site, new_site)


def _conformal(scores, alpha=0.2):
    return lambda d: ref.conformal(scores, d.calibration, d.target, d.new, alpha, d.prior)


def _by_predicted(scores, least=4):
    """Literally: the rows with the same most probable label by themselves, unless these are fewer than ``least``."""

    def reference(d):
        first = d.calibration.argmax(1)
        found = ref.conformal(scores, d.calibration, d.target, d.new, 0.2, d.prior)
        for label in range(d.new.shape[1]):
            own = first == label
            if own.sum() >= least:
                here = d.new.argmax(1) == label
                found[here] = ref.conformal(scores, d.calibration[own], d.target[own], d.new[here], 0.2, d.prior)
        return found

    return reference


def _by_site(sets_of, least):
    """Literally: each site by itself, unless it has fewer rows than ``least``."""
    return lambda d: ref.by_group(lambda own: sets_of(d.calibration[own], d.target[own], d.new, 0.2), d.site, d.new_site, least)


def _classwise_by_site(d):
    """Literally: a class with rows at a site has the threshold of these, a class without any there the common one."""
    common = ref.class_quantiles(-d.calibration, d.target, 0.2)
    found = d.new >= -common
    for site in set(d.site):
        own, here = d.site == site, d.new_site == site
        cuts = ref.class_quantiles(-d.calibration[own], d.target[own], 0.2)
        found[here] = d.new[here] >= -np.where(np.bincount(d.target[own], minlength=5) > 0, cuts, common)
    return found


def _shrunk_lac(d, m=20):
    """Literally: for each site a threshold between its own and the common one."""
    at_labels = d.calibration[np.arange(len(d.target)), d.target]
    common = -ref.conformal_quantile((-at_labels).tolist(), 0.2)
    cuts = {None: common}
    for site in set(d.site):
        own = at_labels[d.site == site]
        cuts[site] = ref.shrunk(-ref.conformal_quantile((-own).tolist(), 0.2), common, len(own), m, 0, 1)
    return d.new >= np.array([[cuts.get(site, common)] for site in d.new_site])


def _tuned_raps(d):
    few = ref.chosen_rows(len(d.calibration))
    penalty, k_reg = ref.tuned_penalty(d.calibration[few], d.target[few], 0.2)
    scores = functools.partial(ref.aps_scores, penalty=penalty, k_reg=k_reg)
    return ref.conformal(lambda probs, prior: scores(probs), d.calibration[~few], d.target[~few], d.new, 0.2)


def _shown(losses):
    return lambda d: d.new >= literal.learn_then_test_cut(d.calibration, ref.marks_of(d.target, 5), losses, 0.1)


def _classwise(scores, alpha=0.2):
    return lambda d: ref.classwise(scores, d.calibration, d.target, d.new, alpha, d.prior)


def _randomised(scores, alpha=0.2, **how):
    return lambda d: ref.randomised_calibration(scores, **how)(d.calibration, d.target, d.new, alpha)


def _per_label(*how):
    return lambda d: d.new >= ref.per_label_cuts(d.calibration, d.target, *how)


SUPERCLASSES = ["rose", "oak", "rose", "oak", "elm"]


def node_scores(probs, prior=None):
    """Literally: walk up from the most probable class; the probability of the last node without the label."""
    found = np.empty_like(probs)
    for row, values in zip(probs, found, strict=True):
        first = int(np.argmax(row))
        family = [j for j, name in enumerate(SUPERCLASSES) if name == SUPERCLASSES[first]]
        for j in range(len(row)):
            values[j] = 0.0 if j == first else row[first] if j in family else sum(row[own] for own in family)
    return found


CASES = [
    Case("top_k", lambda prior: sets.top_k(2), lambda d: ref.top_k(d.new, 2)),
    Case("average_k", lambda prior: sets.average_k(1.7), lambda d: ref.average_k(d.calibration, d.new, 1.7)),
    Case(
        "average_k_prior",
        lambda prior: sets.average_k(1.7, prior),
        lambda d: ref.average_k(d.calibration, d.new, 1.7, d.prior),
    ),
    Case("threshold", lambda prior: sets.threshold(0.3), lambda d: ref.threshold(d.new, 0.3)),
    Case("mass", lambda prior: sets.mass(0.2), lambda d: ref.mass(d.new, 0.2)),
    Case("lac", lambda prior: sets.lac(0.2), _conformal(ref.lac_scores)),
    Case("aps", lambda prior: sets.aps(0.2), _randomised(ref.aps_scores), drawn=True),
    Case("raps", lambda prior: sets.raps(0.2, 0.01, 2), _randomised(ref.raps_scores), drawn=True),
    Case("aps_deterministic", lambda prior: sets.aps(0.2, randomized=False), _conformal(ref.aps_scores)),
    Case("raps_deterministic", lambda prior: sets.raps(0.2, 0.01, 2, randomized=False), _conformal(ref.raps_scores)),
    Case("pas", lambda prior: sets.pas(0.2, prior), _conformal(ref.pas_scores)),
    Case(
        "pac_lac",
        lambda prior: sets.pac(sets.lac(0.2), 0.1),
        lambda d: ref.pac_conformal(ref.lac_scores, d.calibration, d.target, d.new, 0.2, 0.1),
    ),
    Case(
        "pac_risk_control",
        lambda prior: sets.pac(sets.risk_control("recall", 0.2), 0.1),
        lambda d: ref.pac_recall(d.calibration, d.target, d.new, 0.2, 0.1),
        many_labels=True,
    ),
    Case("sure_node", lambda prior: sets.sure_node(0.2, SUPERCLASSES), _conformal(node_scores)),
    Case("classwise_lac", lambda prior: sets.classwise(sets.lac(0.2)), _classwise(ref.lac_scores)),
    Case("classwise_pas", lambda prior: sets.classwise(sets.pas(0.2, prior)), _classwise(ref.pas_scores)),
    Case(
        "classwise_aps",
        lambda prior: sets.classwise(sets.aps(0.2)),
        _randomised(ref.aps_scores, classwise=True),
        drawn=True,
    ),
    Case(
        "classwise_raps_deterministic",
        lambda prior: sets.classwise(sets.raps(0.2, 0.01, 2, randomized=False)),
        _classwise(ref.raps_scores),
    ),
    Case("classwise_many", lambda prior: sets.classwise(sets.lac(0.2)), _classwise(ref.lac_scores), many_labels=True),
    Case(
        "interpolated",
        lambda prior: sets.interpolated(sets.lac(0.2), 0.25),
        lambda d: ref.interpolated(d.calibration, d.target, d.new, 0.2, 0.25),
    ),
    Case("by_predicted", lambda prior: sets.by(sets.lac(0.2), "predicted"), _by_predicted(ref.lac_scores)),
    Case(
        "by_predicted_aps",
        lambda prior: sets.by(sets.aps(0.2, randomized=False), "predicted", 20),
        _by_predicted(ref.aps_scores, 20),
    ),
    Case(
        "risk_control",
        lambda prior: sets.risk_control("recall", 0.2),
        lambda d: ref.risk_control(d.calibration, d.target, d.new, 0.2),
        many_labels=True,
    ),
    Case("per_label_f1", lambda prior: sets.per_label(), _per_label("f1"), many_labels=True),
    Case("per_label_precision", lambda prior: sets.per_label("precision", 0.8), _per_label("precision", 0.8), many_labels=True),
    Case("per_label_recall", lambda prior: sets.per_label("recall", 0.8), _per_label("recall", 0.8), many_labels=True),
    Case(
        "cap",
        lambda prior: sets.cap(sets.threshold(0.2), 2),
        lambda d: ref.bounded(ref.threshold(d.new, 0.2), d.new, most=2),
    ),
    Case(
        "floor",
        lambda prior: sets.floor(sets.pas(0.4, prior), 2),
        lambda d: ref.bounded(_conformal(ref.pas_scores, 0.4)(d), d.new / d.prior, least=2),
    ),
    Case(
        "gate",
        lambda prior: sets.gate(sets.risk_control("recall", 0.2), 0.6),
        lambda d: ref.gated(
            d.calibration, d.target, d.new, 0.6, lambda probs, target: ref.risk_control(probs, target, d.new, 0.2)
        ),
        many_labels=True,
    ),
    Case(
        "gate_any_label",
        lambda prior: sets.gate(sets.floor(sets.average_k(1.7)), 0.6, "any-label"),
        lambda d: ref.gated(
            d.calibration,
            d.target,
            d.new,
            0.6,
            lambda probs, target: ref.bounded(ref.average_k(probs, d.new, 1.7), d.new, least=1),
            by="any-label",
        ),
        many_labels=True,
    ),
]
# Rules that choose something first, or look at all rows together: they are not fitted on rows in several places.
IN_ONE_PLACE = [
    Case(
        "raps_auto", lambda prior: sets.raps(0.2, "auto", randomized=False), _tuned_raps, drawn=True
    ),  # the rows that choose are those of some numbers
    Case(
        "learn_then_test", lambda prior: sets.learn_then_test({"recall": 0.4}, 0.1), _shown({"recall": 0.4}), many_labels=True
    ),
    Case(
        "learn_then_test_of_two",
        lambda prior: sets.learn_then_test({"miscoverage": 0.6, "f1": 0.8}, 0.1),
        _shown({"miscoverage": 0.6, "f1": 0.8}),
    ),
]
# Rules whose rows come with their site.
BY_SITE = [
    Case(
        "by_site",
        lambda prior: sets.by(sets.lac(0.2), "site"),
        _by_site(functools.partial(ref.conformal, ref.lac_scores), 4),
        by_site=True,
    ),
    Case(
        "by_site_classwise",
        lambda prior: sets.by(sets.classwise(sets.lac(0.2)), "site", 1),
        _classwise_by_site,
        by_site=True,
    ),
    Case(
        "by_site_risk_control",
        lambda prior: sets.by(sets.risk_control("recall", 0.2), "site", 20),
        _by_site(ref.risk_control, 20),
        many_labels=True,
        by_site=True,
    ),
    Case("by_site_shrunk", lambda prior: sets.by(sets.lac(0.2), "site", shrink=20), _shrunk_lac, by_site=True),
]
EVERY = CASES + IN_ONE_PLACE + BY_SITE
FITTED = [case for case in CASES if case.make(np.full(5, 0.2)).needs_fit]
EVERY_FITTED = [*FITTED, *IN_ONE_PLACE, *BY_SITE]
LABELLED = [case for case in EVERY_FITTED if case.make(np.full(5, 0.2)).needs_labels]
