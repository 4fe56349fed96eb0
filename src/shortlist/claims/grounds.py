"""Where claims are tested: the same training for every method on each ground, so that nothing but the method differs.

Flora as a table of measurements is the quick ground: a training takes seconds on one core, the best possible sets are known,
and every seed draws a garden of its own. CIFAR-100 is the ground of the papers, for a GPU.
"""

from collections.abc import Mapping
from typing import Any

from shortlist.claims.experiment import Arm, Experiment
from shortlist.claims.training import SIZES, training_arm
from shortlist.recipes.cifar100 import cifar100_resnet9
from shortlist.training.recipe import Recipe

FLORA = "flora:kind=measurements,seed={seed},variation=0.4,val=3000,test=3000"
QUICK_SEEDS, FULL_SEEDS = 6, 5
LABEL_SEEDS = 5  # of experiments on rows with any number of labels, which have many arms

_TABLE: dict[str, Any] = {
    "method": "cross-entropy",
    "rule": "average-k:5",
    "backbone": "mlp-128x2",
    "augmentation": "none",
    "epochs": 24,
    "batch_size": 256,
    "optimizer": "adamw",
    "lr": 4e-3,
    "weight_decay": 1e-2,
    "schedule": "one-cycle",
    "validate_every": 6,
}
# 100 species in 20 genera, as CIFAR-100 has classes and superclasses, all equally frequent.
BALANCED = Recipe("balanced", f"{FLORA},species=100,genera=20,abundance=balanced,train=3000", monitor="top-5", **_TABLE)
# The same with the long tail of Pl@ntNet-300K, also in the test rows.
LONG_TAILED = Recipe("long-tailed", f"{FLORA},species=100,genera=20,train=4000", monitor="average-5", **_TABLE)
# Training rows with a long tail, from 50 to 1, and balanced test rows, as in CIFAR-100-LT.
CUT_TAIL = Recipe(
    "cut-tail",
    f"{FLORA},species=100,genera=20,abundance=balanced,train=16000,imbalance=50",
    monitor="macro-top-5",
    **_TABLE,
)

# The recipe cifar100-resnet9, and the same half as wide, for fewer epochs: seconds a training, for experiments of many arms.
CIFAR100_WIDE = cifar100_resnet9()
CIFAR100 = CIFAR100_WIDE.with_settings(backbone="resnet9-64", epochs=12)
# A quarter of the rows: about as many steps, in smaller batches.
CIFAR100_LT = CIFAR100.with_settings(
    data="cifar100:{path},imbalance=100", monitor="macro-top-5", batch_size=256, lr=0.2, epochs=36, validate_every=12
)
CIFAR100_LT50 = CIFAR100_LT.with_settings(data="cifar100:{path},imbalance=50")


# Rows of several labels: a table of Mulan, and the plots of Flora as lists of their plants. The epoch with the best mean
# average precision on validation rows is kept, whatever the loss.
_SEVERAL: dict[str, Any] = {
    "method": "bce",
    "rule": "top-k:1",
    "backbone": "mlp-256",
    "augmentation": "none",
    "epochs": 24,
    "batch_size": 64,
    "optimizer": "adamw",
    "lr": 2e-3,
    "weight_decay": 1e-2,
    "schedule": "one-cycle",
    "validate_every": 6,
    "monitor": "map",
    "calibration": "none",
    "calibration_share": 0.0,
}
_PLOTS = "flora:kind=plant-lists,seed={seed},species=40,genera=10,train=4000,val=1000,test=2000"
QUADRATS = Recipe("quadrats", _PLOTS, **{**_SEVERAL, "epochs": 12, "batch_size": 128})


def mulan_table(name: str) -> Recipe:
    """The recipe of a table of Mulan."""
    return Recipe(name, f"mulan:{{path}}/{name},name={name}", **_SEVERAL)


def methods_arms(base: Recipe, methods: Mapping[str, Mapping[str, Any]], sizes: tuple[int, ...] = SIZES) -> dict[str, Arm]:
    """An arm for each method: its name and the settings in which it differs from the base."""
    return {name: training_arm(base.with_settings(**changes), sizes) for name, changes in methods.items()}


def quick(id: str, what: str, arms: Mapping[str, Arm], *, shows: tuple[str, ...] = (), seeds: int = QUICK_SEEDS) -> Experiment:
    """An experiment of the quick suite."""
    return Experiment(id, what, arms, seeds, shows=shows)


def on_mulan(
    id: str, what: str, arms: Mapping[str, Arm], *, shows: tuple[str, ...] = (), seeds: int = LABEL_SEEDS
) -> Experiment:
    """An experiment of the quick suite on a table of Mulan, which the user has to have."""
    return Experiment(id, what, arms, seeds, data="mulan", shows=shows)


def on_cifar100(
    id: str,
    what: str,
    arms: Mapping[str, Arm],
    *,
    shows: tuple[str, ...] = (),
    seeds: int = FULL_SEEDS,
    first_seed: int = 0,
) -> Experiment:
    """An experiment on CIFAR-100, for a GPU."""
    return Experiment(id, what, arms, seeds, data="cifar100", quick=False, shows=shows, first_seed=first_seed)
