"""Ideas of our own, judged by the same rules: what should beat the method of a paper on its own metric."""

from shortlist.claims.cheng import ALL as TABLES, MANY_LABELS, of
from shortlist.claims.claim import AtLeast, Claim, Part, Within
from shortlist.claims.experiment import Experiment
from shortlist.claims.garcin_2022 import LABEL_NOISE, NOISE, gap
from shortlist.claims.garcin_2023 import TAILS
from shortlist.claims.label_numbers import OWN, PLATT
from shortlist.claims.liao import AUROC, BACKGROUND, ECE, IN, OPEN_SETS
from shortlist.claims.statistic import Number, difference

PAPER = "beyond"
EXPERIMENTS: tuple[Experiment, ...] = ()
CLAIMS = (
    Claim(
        "beyond-shallow",
        PAPER,
        "",
        "In a network of two layers the top-k hinge needs no smoothing at all.",
        (Part("ε = 0.1 over ε = 0", difference("ε = 0.1", "ε = 0", "top-5"), Within(2)),),
        ("flora-epsilon-shallow",),
    ),
    Claim(
        "beyond-soft-hinge",
        PAPER,
        "",
        "The hinge with soft smoothing, which draws no random numbers, is as good as the noised one, to one point.",
        tuple(Part(f"p = {p:g}", gap(p, "soft hinge", "noised"), Within(1)) for p in NOISE),
        LABEL_NOISE,
    ),
    Claim(
        "beyond-average-weights",
        PAPER,
        "",
        "With label noise, cross-entropy with averaged weights is better than the noised hinge.",
        tuple(Part(f"p = {p:g}", gap(p, "cross-entropy, EMA", "noised")) for p in NOISE[1:]),
        LABEL_NOISE,
    ),
    Claim(
        "beyond-two-head-prior",
        PAPER,
        "",
        "In classes with few examples, two-head probabilities over the prior give better sets than the paper's two-head sets.",
        tuple(
            Part(f"k = {k}", Number(arm, f"macro-average-{k} prior few") - Number(arm, f"macro-average-{k} softmax few"))
            for k, arm in ((5, "two-head, k = 5"), (10, "two-head, k = 10"))
        ),
        TAILS,
    ),
    Claim(
        "beyond-fitted-link",
        PAPER,
        "",
        "With a Platt link that is fitted afterwards, SPA and binary cross-entropy are better calibrated than SPA with pairs.",
        tuple(
            Part(f"ACE: SPA + pairs less {name}, Platt", of("SPA + pairs", "ACE") - of(name, "ACE", PLATT))
            for name in ("SPA", "BCE")
        ),
        TABLES,
    ),
    Claim(
        "beyond-fitted-retrieval",
        PAPER,
        "",
        "With a Platt link, SPA and binary cross-entropy retrieve better than SPA with pairs.",
        tuple(
            Part(f"{name}, Platt over SPA + pairs", of(name, "retrieval", PLATT) - of("SPA + pairs", "retrieval"))
            for name in ("SPA", "BCE")
        ),
        TABLES,
    ),
    Claim(
        "beyond-fitted-binary",
        PAPER,
        "",
        "With a Platt link, the binary classifier is better calibrated than the quasibinary one.",
        (Part("ECE: quasibinary less binary, Platt", Number("quasibinary", f"{ECE} {OWN}") - Number("BCE", f"{ECE} {PLATT}")),),
        MANY_LABELS,
    ),
    Claim(
        "beyond-background",
        PAPER,
        "",
        "A softmax with one more class for rows without a label finds them better than the quasibinary classifier, and is as "
        "accurate on the others, to one point.",
        (
            Part("AUROC", difference(BACKGROUND, "quasibinary", AUROC)),
            Part("accuracy", difference(BACKGROUND, "quasibinary", IN), AtLeast(-1)),
        ),
        OPEN_SETS,
    ),
)
