"""Recipe: the complete, frozen description of one training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

from shortlist.checks import Check, flag, one_of, optional, share, text, whole
from shortlist.data.duplicates import POLICIES, DuplicatePolicy
from shortlist.errors import InputError
from shortlist.methods import Method, find_method
from shortlist.training import setting_checks
from shortlist.training.setting_checks import checked_parameters, default_k, monitor_of_size, rule_of_size, rule_size
from shortlist.training.settings import hashable, parse_value, plain
from shortlist.words import did_you_mean, expected_one_of, listed, shown

Augmentation: TypeAlias = Literal["none", "flip", "shift-flip", "reflected-shift-flip", "crop-flip", "resized-crop-flip"]
TestFit: TypeAlias = Literal["crop", "center"]
Optimizer: TypeAlias = Literal["sgd", "adamw"]
Schedule: TypeAlias = Literal["constant", "step", "cosine", "one-cycle"]
Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
Calibration: TypeAlias = Literal[
    "auto", "none", "temperature", "platt", "beta", "vector-scaling", "dirichlet", "isotonic", "venn-abers", "cross-validated"
]
Labels: TypeAlias = Literal["as-given", "any"]
FusedHead: TypeAlias = bool | Literal["auto"]

LINKS_OF_ANY_SCORES = ("softmax", "sigmoid")
PATH = "{path}"  # placeholder in ``data`` for a path that the user gives


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the result of a training, and nothing else.

    Args:
        name: the name of the recipe.
        data: text for :func:`~shortlist.data.open_dataset`; ``{path}`` in it stands for a path that the user gives.
        method: the name of a method, see :func:`~shortlist.methods.find_method`.
        parameters: parameters of the method that differ from its defaults.
        summary: one line for the list of recipes.
        reference: the publication whose experiment this is.
        grid: settings for ``tune`` to search over, each with its values.
        labels: ``"any"`` treats data with one label per row as multi-label data, for multi-label methods.
        label_noise: probability with which a training label is replaced by one drawn from its superclass.
        backbone: the name of a backbone, see :func:`~shortlist.models.make_backbone`.
        pretrained: whether to start from the published weights of the backbone.
        weights: a ``.safetensors`` file of weights of your own to start the backbone from.
        size: side of the pictures that the network reads; by default that of the pictures if all are equal and at most 64,
            else 64.
        augmentation: augmentation of training pictures: ``"shift-flip"`` shifts by up to an eighth of the side, into black or
            (``"reflected-shift-flip"``) into the picture's reflection; ``"crop-flip"`` crops a picture that is larger by 8/7,
            ``"resized-crop-flip"`` crops a box of random size.
        erase: side of a square that is erased from every training picture, relative to the side of the picture; by default 0,
            none.
        mirror: answer with the mean over each picture and its mirror image, which takes twice the time. Saved with the
            classifier.
        test_fit: how validation, test and new pictures become squares: ``"crop"`` is the largest central square, resized to
            ``size``; ``"center"`` is as training on crops sees them, the central window of a square that is larger by 8/7
            (resize to 256, crop 224). Saved with the classifier.
        epochs: number of epochs.
        epoch_rows: number of rows that count as an epoch; by default all training rows.
        batch_size: rows of a step, over all processes and micro-batches.
        accumulate: number of micro-batches that a step is divided into.
        optimizer: ``"sgd"``, with Nesterov momentum, or ``"adamw"``.
        lr: the largest learning rate.
        momentum: momentum of SGD.
        weight_decay: weight decay of the optimiser.
        schedule: schedule of the learning rate.
        milestones: for ``"step"``: the epochs after which the learning rate is multiplied by ``decay``; at least one of them
            before the last epoch.
        decay: factor of the ``"step"`` schedule.
        warmup: epochs of linear warm-up; by default none, for ``"one-cycle"`` a quarter of all epochs.
        ema: decay per step of an exponential moving average of the weights, which is then evaluated and kept; by default none.
        clip: largest norm of the gradient; by default it is not clipped.
        monitor: the validation metric that selects the epoch to keep; by default the one the method is designed for.
        patience: stop after this many validations without improvement; by default never.
        validate_every: epochs between validations; the last epoch is always validated.
        precision: ``"auto"`` is bfloat16 on a GPU that supports it, otherwise float32.
        compile: whether to compile the network.
        fused_head: whether to compute the head and the loss together, some rows at a time, so that the scores of a batch are
            never stored; ``"auto"`` does so on one GPU if they would take a tenth of its memory, and head and loss allow it.
        skip_nonfinite: number of steps with a loss that is not finite to skip before training stops.
        duplicates: what to do about near-duplicate pictures: ``"keep"``, ``"together"`` keeps them on one side of splits that
            are drawn, ``"drop"`` leaves copies out; the last two open every picture once more.
        tolerance: share of unreadable pictures above which training stops; up to three are always skipped, unless it is 0.
        link: the link that turns scores into probabilities, as text; ``"none"`` if scores cannot be interpreted as
            probabilities; by default, as text ``"own"``, the link of the method.
        calibration: the calibration that is fitted on validation rows on top of the link; ``"auto"`` is temperature scaling
            for one label per row, Platt scaling for several if the method has no link, otherwise none; ``"cross-validated"`` is
            what :func:`~shortlist.links.choose_link` chooses.
        rule: the set rule as text; by default, as text ``"none"``, the one the method is designed for.
        calibration_share: share of the validation rows that is used only to fit the rule; with 0 the rule is fitted on the
            same rows that choose the epoch and fit the link, as in the papers.
        seed: seed of all random numbers.

    >>> Recipe("mine", data="flora", parameters={"k": 3}).with_settings(lr="0.05", alpha=1.0).parameters["alpha"]
    1.0
    """

    name: str
    data: str
    method: str = "average-k"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    reference: str = ""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    labels: Labels = "as-given"
    label_noise: float = 0.0
    backbone: str = "resnet-18"
    pretrained: bool = False
    weights: str | None = None
    size: int | None = None
    augmentation: Augmentation = "shift-flip"
    erase: float = 0.0
    mirror: bool = False
    test_fit: TestFit = "crop"
    epochs: int = 30
    epoch_rows: int | None = None
    batch_size: int = 128
    accumulate: int = 1
    optimizer: Optimizer = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: Schedule = "cosine"
    milestones: tuple[int, ...] = ()
    decay: float = 0.1
    warmup: float | None = None
    ema: float | None = None
    clip: float | None = None
    monitor: str | None = None
    patience: int | None = None
    validate_every: int = 1
    precision: Precision = "auto"
    compile: bool = False
    fused_head: FusedHead = "auto"
    skip_nonfinite: int = 0
    duplicates: DuplicatePolicy = "keep"
    tolerance: float = 0.01
    link: str | None = None
    calibration: Calibration = "auto"
    rule: str | None = None
    calibration_share: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            self._set(name, check(name, getattr(self, name)))
        self._set("parameters", MappingProxyType(checked_parameters(self.chosen_method)))
        _check_combination(self)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash(tuple(hashable(getattr(self, part.name)) for part in fields(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its record."""
        return Recipe.from_record, (self.record(),)

    @property
    def chosen_method(self) -> Method:
        """The method with its parameters."""
        return find_method(self.method).with_parameters(**self.parameters)

    def k_for(self, classes: int) -> float:
        """The set size of the method, else of the rule, else the default for this number of classes."""
        if "k" in self.parameters:
            return float(self.parameters["k"])
        size = rule_size(self.rule)
        return float(default_k(classes)) if size is None else size

    @property
    def title(self) -> str:
        """The title of the report of its run."""
        return f"{self.name}: {self.method}"

    def settings(self) -> dict[str, Any]:
        """All settings by name, with the parameters of the method."""
        return {name: getattr(self, name) for name in _own_names()} | dict(self.parameters)

    def with_settings(self, **changes: Any) -> "Recipe":
        """The same recipe with other settings or other parameters of its method, given as values or as text.

        A new method starts from its own defaults and keeps the k of the old one if it has a k; the grid loses the parameters
        of the old one, and a link that belongs to the scores of the old one is replaced by that of the new one: only softmax
        and sigmoid, which can be applied to any scores, are kept. With a new k, a rule and a monitor whose size was the old k
        get the new one. As text, ``none`` means the default; for ``link``, ``own`` means the default and ``none`` that scores
        cannot be interpreted as probabilities.

        >>> Recipe("mine", "flora", rule="average-k:5,cap:8", monitor="average-5").with_settings(k=3).rule
        'average-k:3,cap:8'
        """
        method = text("method", parse_value("method", changes.get("method", self.method), str))
        numbers = dict(self.parameters) if method == self.method else _carried(self, method)
        hints = get_type_hints(Recipe)
        changed: dict[str, Any] = {}
        if method != self.method:
            changed["grid"] = {name: values for name, values in self.grid.items() if name in _own_names()}
            changed["link"] = self.link if self.link in LINKS_OF_ANY_SCORES else None
        for name, value in changes.items():
            if name in hints:
                changed[name] = parse_value(name, value, hints[name])
            elif name in numbers:
                numbers[name] = parse_value(name, value, str if isinstance(numbers[name], str) else float)
            else:
                raise InputError(_unknown_setting(name, [*_own_names(), *numbers]))
        given = CHECKS["parameters"]("parameters", changed.get("parameters", {}))
        numbers |= given
        return replace(self, **{**_following_k(self, numbers.get("k")), **changed, "parameters": numbers})

    def with_path(self, path: str) -> "Recipe":
        """The recipe with the path of its data."""
        if PATH not in self.data:
            raise InputError(f"recipe {self.name}: expected no path, since its data are {self.data!r}, got {path!r}")
        return replace(self, data=self.data.replace(PATH, path))

    def record(self) -> dict[str, Any]:
        """The recipe as plain values, for JSON."""
        return {part.name: plain(getattr(self, part.name)) for part in fields(self)}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Recipe":
        """The recipe with this record."""
        wanted = "recipe: expected a record with name and data"
        if not isinstance(record, Mapping):
            raise InputError(f"{wanted}, got {shown(record)}")
        missing = [name for name in ("name", "data") if name not in record]
        if missing:
            raise InputError(f"{wanted}, got one without {' and '.join(missing)}")
        unknown = [shown(name) for name in record if name not in get_type_hints(Recipe)]
        if unknown:
            raise InputError(f"{wanted}, and only settings of recipes, got {listed(unknown)}")
        return Recipe(**record)

    def differences(self, other: "Recipe") -> dict[str, tuple[Any, Any]]:
        """Settings in which two recipes differ, with both values; names and descriptions are ignored."""
        ignored = ("name", "summary", "reference", "grid")
        mine, theirs = self.settings(), other.settings()
        names = [name for name in dict.fromkeys([*mine, *theirs]) if name not in ignored]
        return {name: (mine.get(name), theirs.get(name)) for name in names if mine.get(name) != theirs.get(name)}


def _own_names() -> list[str]:
    """The settings that are not mappings."""
    return [part.name for part in fields(Recipe) if part.name not in ("parameters", "grid")]


def _carried(recipe: Recipe, method: str) -> dict[str, Any]:
    """The defaults of another method, with the k of this recipe if both have one."""
    numbers = dict(find_method(method).parameters)
    return numbers | {"k": recipe.parameters["k"]} if "k" in numbers and "k" in recipe.parameters else numbers


def _following_k(recipe: Recipe, k: Any) -> dict[str, Any]:
    """The rule and the monitor of a recipe for another k of its method, where their size is its k."""
    old = recipe.parameters.get("k")
    if old is None or not isinstance(k, int | float) or k == old:  # anything else is refused by the check of parameters
        return {}
    following: dict[str, Any] = {"monitor": monitor_of_size(recipe.monitor, old, k)}
    if recipe.rule is not None and rule_size(recipe.rule) == old:
        following["rule"] = rule_of_size(recipe.rule, k)
    return following


# What other libraries call our settings.
ELSEWHERE = {
    "learning_rate": "lr",
    "max_lr": "lr",
    "lr_scheduler": "schedule",
    "scheduler": "schedule",
    "num_epochs": "epochs",
    "n_epochs": "epochs",
    "max_epochs": "epochs",
    "gradient_clip_val": "clip",
    "max_grad_norm": "clip",
    "gradient_accumulation_steps": "accumulate",
    "accumulate_grad_batches": "accumulate",
    "image_size": "size",
    "img_size": "size",
    "random_state": "seed",
    "mixed_precision": "precision",
    "model": "backbone",
    "criterion": "method",
    "loss": "method",
}


def _unknown_setting(name: str, known: Sequence[str]) -> str:
    meant = ELSEWHERE.get(name.lower())
    hint = f"did you mean {meant!r}?" if meant in known else did_you_mean(name, known).rstrip()
    return f"setting {name!r}: {hint or expected_one_of(name, known, 'shortlist recipes NAME')}"


CHECKS: Mapping[str, Check] = {
    "name": text,
    "data": text,
    "method": text,
    "parameters": setting_checks.table(),
    "summary": text,
    "reference": text,
    "grid": setting_checks.table(lists=True),
    "labels": one_of(*get_args(Labels)),
    "label_noise": share,
    "backbone": text,
    "pretrained": flag,
    "weights": optional(text),
    "size": optional(whole(1, 4096)),
    "augmentation": one_of(*get_args(Augmentation)),
    "erase": share,
    "mirror": flag,
    "test_fit": one_of(*get_args(TestFit)),
    "epochs": whole(1, 10**6),
    "epoch_rows": optional(whole(1, 2**40)),
    "batch_size": whole(1, 2**24),
    "accumulate": whole(1, 2**16),
    "optimizer": one_of(*get_args(Optimizer)),
    "lr": setting_checks.real(above=0),
    "momentum": share,
    "weight_decay": setting_checks.real(least=0, most=10),
    "schedule": one_of(*get_args(Schedule)),
    "milestones": setting_checks.milestones,
    "decay": share,
    "warmup": optional(setting_checks.real(least=0, most=10**6)),
    "ema": optional(setting_checks.real(above=0, below=1)),
    "clip": optional(setting_checks.real(above=0)),
    "monitor": optional(text),
    "patience": optional(whole(1, 10**6)),
    "validate_every": whole(1, 10**6),
    "precision": one_of(*get_args(Precision)),
    "compile": flag,
    "fused_head": setting_checks.flag_or_auto,
    "skip_nonfinite": whole(0, 10**9),
    "duplicates": one_of(*POLICIES),
    "tolerance": share,
    "link": setting_checks.link,
    "calibration": one_of(*get_args(Calibration)),
    "rule": setting_checks.rule,
    "calibration_share": setting_checks.real(least=0, most=0.9),
    "seed": whole(0, 2**63 - 1),
}


def _check_combination(recipe: Recipe) -> None:
    """Checks that involve several settings."""
    if recipe.accumulate > recipe.batch_size:
        raise InputError(f"accumulate: expected at most batch_size, {recipe.batch_size}, got {recipe.accumulate}")
    if recipe.schedule == "step" and not recipe.milestones:
        raise InputError("milestones: expected the epochs at which the step schedule lowers the learning rate, got none")
    unknown = next((name for name in recipe.grid if name not in recipe.settings()), None)
    if unknown is not None:
        raise InputError(f"grid: expected settings of the recipe or parameters of its method, got {unknown!r}")
