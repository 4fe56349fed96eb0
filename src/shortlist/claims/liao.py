"""Liao et al., "Quasibinary classifier for images with zero and multiple labels"."""

from typing import Any

from shortlist.claims.cheng import MANY_LABELS
from shortlist.claims.claim import AtLeast, Claim, Part, Within
from shortlist.claims.experiment import Arm
from shortlist.claims.grounds import CIFAR100, CIFAR100_WIDE, FLORA, LABEL_SEEDS, on_cifar100, quick
from shortlist.claims.label_numbers import OWN, SIGMOID, TEMPERATURE, TOP
from shortlist.claims.label_training import AUROC, one_of_many_arm, open_set_arm
from shortlist.claims.normaliser import normaliser_arms
from shortlist.claims.statistic import Number, Statistic, difference
from shortlist.training.recipe import Recipe

PAPER = "liao"
CLASSES = (10, 100, 200)
ONE_OF_MANY: dict[str, dict[str, Any]] = {
    "softmax": {},
    "binary": {"method": "bce", "labels": "any"},
    "quasibinary": {"method": "quasibinary", "labels": "any"},
}
OPEN_SET = {
    "quasibinary": "quasibinary",
    "binary": "bce",
    "softmax, uniform": "softmax-uniform",
    "softmax, unsure": "softmax-confidence",
}
BACKGROUND = "softmax, one more class"
IN, OUT = "top-1 in", "confidence out"
ECE, F1 = f"ECE-{TOP}", f"F1-{TOP}"

# The last epoch is what is kept, whatever the loss.
_TRAINED: dict[str, Any] = {"monitor": None, "calibration": "none", "calibration_share": 0.0, "rule": "top-k:1"}
_TABLE: dict[str, Any] = {
    "method": "cross-entropy",
    "backbone": "mlp-128x2",
    "augmentation": "none",
    "epochs": 24,
    "batch_size": 256,
    "optimizer": "adamw",
    "lr": 4e-3,
    "weight_decay": 1e-2,
    "schedule": "one-cycle",
    "validate_every": 24,
    **_TRAINED,
}
_UNKNOWN = FLORA.replace("kind=measurements", "kind=open-set-measurements")
FLORA_OPEN = Recipe("open-set", f"{_UNKNOWN},species=100,genera=20,abundance=balanced,noise=0.1,train=6000", **_TABLE)
CIFAR_ONE = CIFAR100.with_settings(**{**_TRAINED, "validate_every": CIFAR100.epochs})
CIFAR_WIDE_OPEN = CIFAR100_WIDE.with_settings(
    **{**_TRAINED, "validate_every": CIFAR100_WIDE.epochs, "data": "cifar100:{path},unlabelled=2", "lr": 0.2}
)
CIFAR_OPEN = CIFAR_ONE.with_settings(data="cifar100:{path},unlabelled=2", lr=0.2)


def _garden(classes: int) -> Recipe:
    """As many training rows whatever the number of species."""
    data = f"{FLORA},species={classes},genera={classes // 5},abundance=balanced,noise=0.1,train=4000"
    return Recipe("one-of-many", data, **_TABLE)


def _named(kind: str, classes: int) -> str:
    return f"{kind}, {classes} classes"


def _one_of_many(base: Recipe, classes: int) -> dict[str, Arm]:
    return {_named(kind, classes): one_of_many_arm(base.with_settings(**changes)) for kind, changes in ONE_OF_MANY.items()}


def _open_set(base: Recipe) -> dict[str, Arm]:
    arms = {name: open_set_arm(base.with_settings(method=method)) for name, method in OPEN_SET.items()}
    return arms | {BACKGROUND: open_set_arm(base, "background")}


EXPERIMENTS = (
    quick(
        "flora-classes",
        "one label a row, by the number of classes",
        {name: arm for classes in CLASSES for name, arm in _one_of_many(_garden(classes), classes).items()},
        shows=("error",),
        seeds=LABEL_SEEDS,
    ),
    on_cifar100("cifar100-one-of-many", "one label a row", _one_of_many(CIFAR_ONE, 100), shows=("error",)),
    quick(
        "flora-open-set",
        "species without a label, some of each genus",
        _open_set(FLORA_OPEN),
        shows=(IN, OUT, AUROC),
        seeds=LABEL_SEEDS,
    ),
    on_cifar100("cifar60-40", "40 classes without a label", _open_set(CIFAR_OPEN), shows=(IN, OUT, AUROC)),
    on_cifar100(
        "cifar60-40-wide",
        "40 classes without a label, 30 epochs of a ResNet-9 of width 128",
        {
            "quasibinary": open_set_arm(CIFAR_WIDE_OPEN.with_settings(method="quasibinary")),
            BACKGROUND: open_set_arm(CIFAR_WIDE_OPEN, "background"),
        },
        shows=(IN, OUT, AUROC),
    ),
    quick(
        "flora-normaliser",
        "the normaliser at the end of training",
        normaliser_arms(),
        shows=("spread", "drift", "above 1", "rows above 1"),
        seeds=LABEL_SEEDS,
    ),
)
OPEN_SETS = ("flora-open-set", "cifar60-40")
TABLE_2 = {"paper": PAPER, "table": "II"}
TABLE_3 = {"paper": PAPER, "table": "III", "dataset": "coco"}
UNTRAINED = (
    "On CIFAR-100 the binary classifier hardly learns in so few epochs at this learning rate, which was chosen for the "
    "softmax: its comparisons there say nothing about longer trainings or [other rates](#beyond-own-rates-one-of-many)."
)
DATASETS = {10: "cifar10", 100: "cifar100", 200: "tiny-imagenet"}


def _where(classes: int) -> tuple[str, ...]:
    return ("flora-classes", "cifar100-one-of-many") if classes == 100 else ("flora-classes",)


def _published(classes: int) -> dict[str, object]:
    return {"paper": PAPER, "table": "I", "dataset": DATASETS[classes]}


def _over(rival: str, classes: int) -> Statistic:
    """How much larger the error of a rival is than that of the quasibinary classifier."""
    return difference(_named(rival, classes), _named("quasibinary", classes), "error")


def _zero_label(name: str, rival: str) -> Statistic:
    return difference("quasibinary", rival, name)


def _ece(name: str, reading: str) -> Number:
    return Number(name, f"{ECE} {reading}")


CLAIMS = (
    *(
        Claim(
            f"liao-softmax-{classes}",
            PAPER,
            "Table I",
            f"With {classes} classes the quasibinary classifier is as accurate as the softmax, to one point.",
            (Part("error: softmax less quasibinary", _over("softmax", classes), Within(1)),),
            _where(classes),
            _published(classes),
        )
        for classes in CLASSES
    ),
    Claim(
        "liao-binary-10",
        PAPER,
        "Table I",
        "With 10 classes the binary classifier is as accurate as the quasibinary one, to one point.",
        (Part("error: binary less quasibinary", _over("binary", 10), Within(1)),),
        _where(10),
        _published(10),
    ),
    *(
        Claim(
            f"liao-binary-{classes}",
            PAPER,
            "Table I",
            f"With {classes} classes the binary classifier is less accurate than the quasibinary one.",
            (Part("error: binary less quasibinary", _over("binary", classes)),),
            _where(classes),
            _published(classes),
            remark=UNTRAINED if classes == 100 else "",
        )
        for classes in CLASSES[1:]
    ),
    Claim(
        "liao-open-set-accuracy",
        PAPER,
        "Table II",
        "With rows without a label, the quasibinary classifier is as accurate on the others as the best rival, to a point.",
        (
            *(Part(f"over {rival}", _zero_label(IN, rival), AtLeast(-1)) for rival in ("binary", "softmax, uniform")),
            Part("over softmax, unsure", _zero_label(IN, "softmax, unsure")),
        ),
        OPEN_SETS,
        {**TABLE_2, "metric": "top-1 in"},
        remark=UNTRAINED,
    ),
    Claim(
        "liao-open-set-confidence",
        PAPER,
        "Table II",
        "Its confidence on rows without a label is lower than that of every rival.",
        tuple(
            Part(f"{rival} less quasibinary", difference(rival, "quasibinary", OUT))
            for rival in OPEN_SET
            if rival != "quasibinary"
        ),
        OPEN_SETS,
        {**TABLE_2, "metric": "confidence out"},
        remark=UNTRAINED,
    ),
    Claim(
        "liao-open-set-auroc",
        PAPER,
        "Table II",
        "Its confidence tells rows with a label from rows without better than that of every rival.",
        tuple(Part(f"over {rival}", _zero_label(AUROC, rival)) for rival in OPEN_SET if rival != "quasibinary"),
        OPEN_SETS,
        {**TABLE_2, "metric": "AUROC"},
        remark="The softmax trained to be uniform is a stronger rival here than in the paper, where it was 60 % confident on "
        "rows without a label: on Flora it is less confident there than the quasibinary classifier. " + UNTRAINED,
    ),
    Claim(
        "liao-multilabel-calibration",
        PAPER,
        "Table III",
        "With several labels a row, it is better calibrated than the binary classifier and the softmax.",
        (
            Part("ECE: binary less quasibinary", _ece("BCE", SIGMOID) - _ece("quasibinary", OWN)),
            Part("ECE: softmax less quasibinary", _ece("softmax", OWN) - _ece("quasibinary", OWN)),
            Part("ECE: softmax with temperature less quasibinary", _ece("softmax", TEMPERATURE) - _ece("quasibinary", OWN)),
        ),
        MANY_LABELS,
        {**TABLE_3, "metric": "ECE"},
    ),
    Claim(
        "liao-multilabel-f1",
        PAPER,
        "Table III",
        "With several labels a row, its F1 is that of the softmax, to one point, and above that of the binary classifier.",
        (
            Part("softmax", difference("quasibinary", "softmax", F1), Within(1)),
            Part("over binary", difference("quasibinary", "BCE", F1)),
        ),
        MANY_LABELS,
        {**TABLE_3, "metric": "macro-F1"},
    ),
    Claim(
        "liao-normaliser",
        PAPER,
        "Figure 2",
        "In training the normaliser becomes a constant, and that of the softmax does not.",
        (
            Part("spread of log C over the last batches", Number("quasibinary", "spread"), Within(0.1), unit="nats"),
            Part("drift of log C in the last tenth", Number("quasibinary", "drift"), Within(0.1), unit="nats"),
            Part("spread: softmax less quasibinary", difference("softmax", "quasibinary", "spread"), AtLeast(0.1), unit="nats"),
        ),
        ("flora-normaliser",),
    ),
    Claim(
        "liao-above-one",
        PAPER,
        "Section III",
        "About one probability in a thousand is above 1 on test rows, and has to be cut.",
        (Part("share of probabilities, %", Number("quasibinary", "above 1"), Within(0.2), unit="%"),),
        ("flora-normaliser",),
        remark="One row in ten has such a probability.",
    ),
)
