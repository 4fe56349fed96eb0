"""Garcin et al. 2022, "Stochastic smoothing of the top-K calibrated hinge loss for deep imbalanced classification"."""

from collections.abc import Sequence
from typing import Any

from shortlist.claims.claim import AtLeast, Claim, Part, Within
from shortlist.claims.experiment import Arm, Experiment
from shortlist.claims.gradients import gradient_arms
from shortlist.claims.grounds import BALANCED, CIFAR100, CIFAR100_LT, CIFAR100_LT50, CUT_TAIL, methods_arms, on_cifar100, quick
from shortlist.claims.statistic import Combined, Number, Statistic, Tuned, difference, slope
from shortlist.claims.timing import CROSS_ENTROPY, SIZES as TIMED, noised_at, smooth_at, timing_arms
from shortlist.training.recipe import Recipe

PAPER = "garcin-2022"
SIZES = (1, 5)
NOISED: dict[str, Any] = {"method": "noised-topk", "k": 5, "epsilon": 0.2, "samples": 10}

# ε and B: Tables 2 and 3. "Deep" matters: with two layers every ε trains.
EPSILONS = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
DEEP = BALANCED.with_settings(backbone="mlp-128x8")
DRAWS = (1, 2, 5, 10, 50)


def _epsilons(base: Recipe, epsilons: Sequence[float] = EPSILONS) -> dict[str, Arm]:
    methods: dict[str, dict[str, Any]] = {f"ε = {epsilon:g}": {**NOISED, "epsilon": epsilon} for epsilon in epsilons}
    return methods_arms(base, methods, SIZES)


def _draws(base: Recipe) -> dict[str, Arm]:
    return methods_arms(base, {f"B = {draws}": {**NOISED, "samples": draws} for draws in DRAWS}, SIZES)


# Label noise: Table 4. The two last methods are rivals of our own, see beyond.py.
NOISE = (0.0, 0.1, 0.2, 0.3, 0.4)
TOP_5: dict[str, dict[str, Any]] = {
    "cross-entropy": {},
    "smooth hinge": {"method": "smooth-topk", "k": 5},
    "noised": NOISED,
    "soft hinge": {**NOISED, "smoothing": "soft"},
    "cross-entropy, EMA": {"ema": 0.99},
}


def _with_noise(base: Recipe, ema: float) -> dict[str, Arm]:
    methods = {name: {**changes, "ema": ema} if "ema" in changes else changes for name, changes in TOP_5.items()}
    arms = {f"{name}, p = {p:g}": {**changes, "label_noise": p} for p in NOISE for name, changes in methods.items()}
    del arms["cross-entropy, EMA, p = 0"]  # a rival where labels are noisy
    return methods_arms(base, arms, SIZES)


def gap(p: float, method: str = "noised", rival: str = "cross-entropy") -> Statistic:
    """How much better the top-5 accuracy of a method is than that of a rival, with this label noise."""
    return difference(f"{method}, p = {p:g}", f"{rival}, p = {p:g}", "top-5")


# The long tail: Tables 5 and 6. Three settings of each method, of which validation rows choose, for each seed.
TAIL: dict[str, dict[str, dict[str, Any]]] = {
    "cross-entropy": {f"decay {decay:g}": {"weight_decay": decay} for decay in (1e-3, 1e-2, 1e-1)},
    "focal": {f"γ = {gamma:g}": {"method": "focal", "gamma": gamma} for gamma in (0.5, 1.0, 2.0)},
    "LDAM": {f"scale {scale:g}": {"method": "ldam", "scale": scale} for scale in (10.0, 20.0, 40.0)},
    "imbalanced": {
        f"ε = {epsilon:g}": {"method": "noised-topk-imbalanced", "k": 5, "epsilon": epsilon} for epsilon in (0.01, 0.1, 0.3)
    },
}
TAIL_ARMS = {method: tuple(f"{method}, {setting}" for setting in settings) for method, settings in TAIL.items()}


def _tail(base: Recipe, decays: Sequence[float]) -> dict[str, Arm]:
    arms = {f"{method}, {setting}": changes for method, settings in TAIL.items() for setting, changes in settings.items()}
    for arm, decay in zip(TAIL_ARMS["cross-entropy"], decays, strict=True):
        arms[arm] = {"weight_decay": decay}
    return methods_arms(base, arms, SIZES)


def on_tail(method: str, name: str = "macro-top-5") -> Statistic:
    """A number of a method on the long tail, tuned on validation rows."""
    return Tuned(TAIL_ARMS[method], name)


def _few_shot_surplus(method: str, rival: str) -> Statistic:
    few, many = (on_tail(method, f"macro-top-5 {group}") - on_tail(rival, f"macro-top-5 {group}") for group in ("few", "many"))
    return few - many


EXPERIMENTS: tuple[Experiment, ...] = (
    quick("flora-epsilon", "the noised hinge by ε, eight layers", _epsilons(DEEP), shows=("top-5",)),
    quick("flora-epsilon-shallow", "the noised hinge by ε, two layers", _epsilons(BALANCED, (0.0, 0.1)), shows=("top-5",)),
    on_cifar100("cifar100-epsilon", "the noised hinge by ε, ResNet-9", _epsilons(CIFAR100), shows=("top-5",)),
    quick("flora-draws", "the noised hinge by its number of draws, B", _draws(BALANCED), shows=("top-5",)),
    on_cifar100("cifar100-draws", "the noised hinge by its number of draws, B", _draws(CIFAR100), shows=("top-5",)),
    quick("flora-gradients", "coordinates of the gradient, in the first epoch", gradient_arms(), shows=("nonzero",)),
    quick("flora-label-noise", "labels redrawn within the genus", _with_noise(BALANCED, 0.99), shows=("top-5",)),
    on_cifar100("cifar100-label-noise", "labels redrawn within the superclass", _with_noise(CIFAR100, 0.998), shows=("top-5",)),
    quick(
        "flora-long-tail",
        "training rows with a long tail, balanced test rows",
        _tail(CUT_TAIL, (1e-3, 1e-2, 1e-1)),
        shows=("macro-top-5", "macro-top-5 few", "macro-top-5 many"),
    ),
    on_cifar100(
        "cifar100-long-tail",
        "CIFAR-100-LT, imbalance 100",
        _tail(CIFAR100_LT, (2e-4, 5e-4, 1e-3)),
        shows=("macro-top-5", "macro-top-5 few", "macro-top-5 many"),
    ),
    on_cifar100(
        "cifar100-long-tail-50",
        "CIFAR-100-LT, imbalance 50",
        _tail(CIFAR100_LT50, (2e-4, 5e-4, 1e-3)),
        shows=("macro-top-5", "macro-top-5 few", "macro-top-5 many"),
    ),
)
TIMES = Experiment(
    "gpu-epoch-time",
    "40 steps of DenseNet 40-40, batches of 64, by loss; milliseconds",
    timing_arms(),
    seeds=9,
    quick=False,
    device="gpu",
    shows=(CROSS_ENTROPY, *map(noised_at, TIMED), *map(smooth_at, TIMED)),
)
EXPERIMENTS = (*EXPERIMENTS, TIMES)
LABEL_NOISE = ("flora-label-noise", "cifar100-label-noise")
LONG_TAIL = ("flora-long-tail", "cifar100-long-tail", "cifar100-long-tail-50")
EPSILON = ("flora-epsilon", "cifar100-epsilon")
TABLE_2, TABLE_3, TABLE_4 = ({"paper": PAPER, "table": table} for table in "234")
TABLE_5 = {"paper": PAPER, "table": "5", "k": 5.0, "method": ("cross-entropy", "focal", "ldam", "noised-topk-imbalanced")}


def _against_tenth(epsilon: float) -> Statistic:
    return difference("ε = 0.1", f"ε = {epsilon:g}", "top-5")


def _room(k: int) -> Statistic:
    """Ten percent less what the noised hinge adds to the time of cross-entropy, in percent of that."""
    times = Number("times", noised_at(k)), Number("times", CROSS_ENTROPY)
    return Combined("10 - what {} adds to {}", lambda mine, theirs: 10 - 100 * (mine / theirs - 1), times)


CLAIMS = (
    Claim(
        "garcin-2022-tiny-epsilon",
        PAPER,
        "Table 2",
        "Without smoothing (ε = 0) or with too little (ε ≤ 0.001) the top-k hinge fails to train a deep network.",
        tuple(Part(f"ε = 0.1 over ε = {epsilon:g}", _against_tenth(epsilon), AtLeast(10)) for epsilon in (0.0, 1e-4, 1e-3)),
        EPSILON,
        TABLE_2,
    ),
    Claim(
        "garcin-2022-small-epsilon",
        PAPER,
        "Table 2",
        "ε = 0.01 is enough smoothing: nothing is lost against ε = 0.1.",
        (Part("ε = 0.1 over ε = 0.01", _against_tenth(0.01), Within(2)),),
        EPSILON,
        TABLE_2,
    ),
    Claim(
        "garcin-2022-large-epsilon",
        PAPER,
        "Table 2",
        "Large ε is harmless: up to 100 it costs less than two points of top-5 accuracy.",
        tuple(
            Part(f"ε = {epsilon:g} over ε = 0.1", difference(f"ε = {epsilon:g}", "ε = 0.1", "top-5"), AtLeast(-2))
            for epsilon in (1.0, 10.0, 100.0)
        ),
        EPSILON,
        TABLE_2,
    ),
    Claim(
        "garcin-2022-draws",
        PAPER,
        "Table 3",
        "The number of draws B hardly matters.",
        tuple(Part(f"B = {b} over B = 10", difference(f"B = {b}", "B = 10", "top-5"), Within(1)) for b in DRAWS if b != 10),
        ("flora-draws", "cifar100-draws"),
        TABLE_3,
    ),
    Claim(
        "garcin-2022-sparse-gradients",
        PAPER,
        "Figure 2",
        "Gradients of the noised hinge are sparse where those of cross-entropy and of the smooth hinge are dense.",
        tuple(
            Part(f"{rival} over ε = {epsilon:g}", Number(rival, "nonzero") - Number(f"ε = {epsilon:g}", "nonzero"), AtLeast(50))
            for rival in ("cross-entropy", "smooth hinge")
            for epsilon in (0.01, 0.1, 1.0)
        ),
        ("flora-gradients",),
    ),
    Claim(
        "garcin-2022-epoch-time",
        PAPER,
        "Figure 3",
        "The noised hinge adds less than a tenth to the time of an epoch, whatever k is.",
        tuple(Part(f"k = {k}: a tenth less what it adds, %", _room(k), unit="%") for k in TIMED),
        ("gpu-epoch-time",),
        {"paper": PAPER, "table": "Figure 3"},
        remark="Recorded before, in another form: [the loss in an epoch](benchmarks.md#the-loss-in-an-epoch).",
    ),
    Claim(
        "garcin-2022-clean",
        PAPER,
        "Table 4",
        "Without label noise the noised hinge costs at most half a point against cross-entropy, and the smooth hinge more.",
        (
            Part("noised over cross-entropy", gap(0.0), AtLeast(-0.5)),
            Part("cross-entropy over smooth hinge", gap(0.0, "cross-entropy", "smooth hinge")),
        ),
        LABEL_NOISE,
        TABLE_4,
    ),
    Claim(
        "garcin-2022-noise",
        PAPER,
        "Table 4",
        "With label noise the noised hinge has a better top-5 accuracy than cross-entropy.",
        tuple(Part(f"p = {p:g}", gap(p)) for p in NOISE[1:]),
        LABEL_NOISE,
        TABLE_4,
        remark="On Flora validation rows choose the epoch; what happens without that is [below](#beyond-memorising).",
    ),
    Claim(
        "garcin-2022-noise-gap",
        PAPER,
        "Table 4",
        "The advantage of the noised hinge over cross-entropy grows with the label noise.",
        (Part("slope over p", slope(NOISE, [gap(p) for p in NOISE])),),
        LABEL_NOISE,
        TABLE_4,
    ),
    Claim(
        "garcin-2022-noise-smooth",
        PAPER,
        "Table 4",
        "With label noise the smooth hinge has a better top-5 accuracy than cross-entropy as well.",
        tuple(Part(f"p = {p:g}", gap(p, "smooth hinge")) for p in NOISE[1:]),
        LABEL_NOISE,
        TABLE_4,
    ),
    Claim(
        "garcin-2022-noise-both",
        PAPER,
        "Table 4",
        "With much label noise (p ≥ 0.2) the noised hinge is better than the smooth one.",
        tuple(Part(f"p = {p:g}", gap(p, "noised", "smooth hinge")) for p in NOISE[2:]),
        LABEL_NOISE,
        TABLE_4,
    ),
    Claim(
        "garcin-2022-long-tail",
        PAPER,
        "Tables 5 and 6",
        "On a long tail, in macro top-5 accuracy, the imbalanced noised hinge is better than LDAM, LDAM than focal, focal than "
        "cross-entropy.",
        tuple(
            Part(f"{better} over {worse}", on_tail(better) - on_tail(worse))
            for better, worse in (("imbalanced", "LDAM"), ("LDAM", "focal"), ("focal", "cross-entropy"))
        ),
        LONG_TAIL,
        TABLE_5,
    ),
    Claim(
        "garcin-2022-long-tail-best",
        PAPER,
        "Tables 5 and 6",
        "On a long tail the imbalanced noised hinge has a better macro top-5 accuracy than cross-entropy.",
        (Part("imbalanced over cross-entropy", on_tail("imbalanced") - on_tail("cross-entropy")),),
        LONG_TAIL,
        TABLE_5,
    ),
    Claim(
        "garcin-2022-few-shot",
        PAPER,
        "Tables 5 and 6",
        "What the imbalanced noised hinge gains over cross-entropy, it gains in classes with few examples.",
        (Part("gain in few-shot over gain in many-shot classes", _few_shot_surplus("imbalanced", "cross-entropy")),),
        LONG_TAIL,
        TABLE_5,
    ),
)
