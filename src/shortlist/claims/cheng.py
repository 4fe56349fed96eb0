"""Cheng and Vasconcelos, "Towards calibrated multi-label deep neural networks"."""

from shortlist.claims.claim import Claim, Part, Within
from shortlist.claims.experiment import Arm
from shortlist.claims.grounds import LABEL_SEEDS, QUADRATS, mulan_table, on_mulan, quick
from shortlist.claims.label_numbers import ISOTONIC, LENGTHS, OWN, PLATT, SIGMOID
from shortlist.claims.label_training import label_arm
from shortlist.claims.statistic import Number, Statistic, difference, slope
from shortlist.training.recipe import Recipe

PAPER = "cheng"
METHODS = {
    "BCE": "bce",
    "focal": "focal-multilabel",
    "ASY": "asy",
    "SPA": "spa",
    "BCE + pairs": "bce-label-pair",
    "focal + pairs": "focal-label-pair",
    "ASY + pairs": "asymmetric-label-pair",
    "SPA + pairs": "spa-label-pair",
}
# Losses of other papers, on the tables whose rows have the most labels.
OTHERS = {"quasibinary": "quasibinary", "softmax": "softmax", "sparse-top": "sparse-top"}
# How the paper reads the scores of each loss; φ is the link of focal and ASY.
READ = {name: OWN if name.startswith(("BCE", "SPA")) else SIGMOID for name in METHODS}
SHOWS = ("mAP@y", "mAP@x", f"ACE {OWN}", f"ACE {SIGMOID}", f"ACE {PLATT}", f"retrieval {OWN}", f"retrieval {PLATT}")


def _arms(base: Recipe, change: str, methods: dict[str, str]) -> dict[str, Arm]:
    return {name: label_arm(base.with_settings(method=method), change) for name, method in methods.items()}


def _tables() -> dict[str, dict[str, Arm]]:
    return {
        name: _arms(mulan_table(name), "redivided", METHODS | (OTHERS if name == "yeast" else {}))
        for name in ("yeast", "scene", "emotions", "birds")
    }


EXPERIMENTS = (
    quick(
        "flora-quadrats",
        "40 species in plots, a long tail",
        _arms(QUADRATS, "", METHODS | OTHERS),
        shows=SHOWS,
        seeds=LABEL_SEEDS,
    ),
    *(
        on_mulan(f"mulan-{name}", f"the table {name} of Mulan, its rows divided anew for each seed", arms, shows=SHOWS)
        for name, arms in _tables().items()
    ),
)
ALL = tuple(one.id for one in EXPERIMENTS)
MANY_LABELS = ("flora-quadrats", "mulan-yeast")
TABLE_3 = {"paper": PAPER, "table": "3", "dataset": "coco", "backbone": "ECA-ResNet50-T"}
TABLE_4 = {"paper": PAPER, "table": "4", "metric": "ACE"}


def of(method: str, number: str, reading: str | None = None) -> Number:
    """A number of a method, its scores read as the paper reads them unless told otherwise."""
    return Number(method, f"{number} {reading or READ[method]}")


def _gap(method: str, rival: str) -> Statistic:
    """How fast the gap in retrieval grows with the length of the query."""
    return slope(LENGTHS, [of(method, f"retrieval-{n}") - of(rival, f"retrieval-{n}") for n in LENGTHS])


CLAIMS = (
    Claim(
        "cheng-accuracy",
        PAPER,
        "Table 3",
        "SPA ranks labels and rows as well as ASY, to one point.",
        tuple(Part(name, difference("SPA", "ASY", name), Within(1)) for name in ("mAP@y", "mAP@x")),
        ALL,
        {**TABLE_3, "method": ("asy", "spa"), "metric": ("mAP@y", "mAP@x")},
    ),
    Claim(
        "cheng-over-bce",
        PAPER,
        "Table 3",
        "SPA ranks labels and rows better than binary cross-entropy.",
        tuple(Part(name, difference("SPA", "BCE", name)) for name in ("mAP@y", "mAP@x")),
        ALL,
        {**TABLE_3, "method": ("bce", "spa"), "metric": ("mAP@y", "mAP@x")},
    ),
    Claim(
        "cheng-calibration",
        PAPER,
        "Table 3",
        "The calibration errors of SPA are less than half of those of ASY.",
        tuple(
            Part(f"{name} of ASY over that of SPA, beyond 2", of("ASY", name) / of("SPA", name) - 2.0, unit="times")
            for name in ("ACE", "MCE")
        ),
        ALL,
        {**TABLE_3, "method": ("asy", "spa"), "metric": ("ACE", "MCE")},
    ),
    Claim(
        "cheng-calibration-bce",
        PAPER,
        "Table 3",
        "SPA is better calibrated than binary cross-entropy.",
        tuple(Part(f"{name}: BCE less SPA", of("BCE", name) - of("SPA", name)) for name in ("ACE", "MCE")),
        ALL,
        {**TABLE_3, "method": ("bce", "spa"), "metric": ("ACE", "MCE")},
        remark="So few rows are overfitted, SPA no less than binary cross-entropy: see "
        "[by the length of training](#beyond-overfitting).",
    ),
    Claim(
        "cheng-phi",
        PAPER,
        "Table 3",
        "The link φ lowers the calibration error of focal and of ASY.",
        tuple(Part(f"{name}: sigmoid less φ", of(name, "ACE", SIGMOID) - of(name, "ACE", OWN)) for name in ("focal", "ASY")),
        ALL,
        {**TABLE_3, "method": ("focal-multilabel", "asy"), "metric": "ACE"},
    ),
    Claim(
        "cheng-phi-in-part",
        PAPER,
        "Table 3",
        "With φ, focal and ASY are still not as well calibrated as SPA.",
        tuple(Part(f"{name} + φ less SPA", of(name, "ACE", OWN) - of("SPA", "ACE")) for name in ("focal", "ASY")),
        ALL,
        {**TABLE_3, "method": ("focal-multilabel", "asy", "spa"), "metric": "ACE"},
    ),
    Claim(
        "cheng-pairs",
        PAPER,
        "Table 3",
        "Label pairs lower the calibration error of SPA.",
        (Part("ACE: SPA less SPA + pairs", of("SPA", "ACE") - of("SPA + pairs", "ACE")),),
        ALL,
        {**TABLE_3, "method": ("spa", "spa-label-pair"), "metric": "ACE"},
    ),
    Claim(
        "cheng-pairs-others",
        PAPER,
        "Table 4",
        "Label pairs lower the calibration error of other losses too.",
        tuple(
            Part(f"ACE: {name} less {name} + pairs", of(name, "ACE") - of(f"{name} + pairs", "ACE"))
            for name in ("BCE", "focal", "ASY")
        ),
        ALL,
        TABLE_4,
    ),
    Claim(
        "cheng-retrieval",
        PAPER,
        "Figure 3",
        "SPA retrieves rows by combined queries better than ASY.",
        (Part("SPA over ASY", of("SPA", "retrieval") - of("ASY", "retrieval")),),
        ALL,
    ),
    Claim(
        "cheng-retrieval-bce",
        PAPER,
        "Figure 3",
        "SPA retrieves rows by combined queries better than binary cross-entropy.",
        (Part("SPA over BCE", of("SPA", "retrieval") - of("BCE", "retrieval")),),
        ALL,
    ),
    Claim(
        "cheng-retrieval-length",
        PAPER,
        "Figure 3",
        "The longer the query, the further SPA is ahead of ASY.",
        (Part("points for each label more", _gap("SPA", "ASY")),),
        ALL,
    ),
    Claim(
        "cheng-fitted",
        PAPER,
        "Table 3, with rivals that need no training",
        "SPA is better calibrated than binary cross-entropy and ASY with a link that is fitted to them afterwards.",
        tuple(
            Part(f"ACE: {name}, {link} less SPA", of(name, "ACE", link) - of("SPA", "ACE"))
            for name in ("BCE", "ASY")
            for link in (PLATT, ISOTONIC)
        ),
        ALL,
    ),
)
