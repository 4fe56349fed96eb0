"""Recipe: the complete, frozen description of one training, and how a person changes one of its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_type_hints

from shortlist.errors import InputError
from shortlist.methods import Method, find_method
from shortlist.training.settings import (
    checked_value,
    hashable,
    link_text,
    method_numbers,
    parse_value,
    plain,
    rule_size,
    rule_text,
)
from shortlist.words import did_you_mean, shown

Augmentation: TypeAlias = Literal["none", "flip", "shift-flip", "crop-flip", "resized-crop-flip"]
Optimizer: TypeAlias = Literal["sgd", "adamw"]
Schedule: TypeAlias = Literal["constant", "step", "cosine", "one-cycle"]
Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
Calibration: TypeAlias = Literal["auto", "none", "temperature", "platt", "isotonic"]
Labels: TypeAlias = Literal["as-given", "any"]

PATH = "{path}"  # stands for what a person has to give


@dataclass(frozen=True)
class Recipe:
    """Everything that decides how a training comes out, and nothing that does not.

    Args:
        name: what to call it.
        data: a line for :func:`~shortlist.data.open_dataset`; ``{path}`` in it is to be given by whoever trains.
        method: of :func:`~shortlist.methods.find_method`.
        parameters: the method's numbers, where they differ from its defaults.
        summary: one line for a list of recipes.
        reference: the publication whose experiment this is.
        expected: the numbers published there, in percent, by name.
        grid: settings to search over by ``tune``, each with its values.
        labels: ``"any"`` reads one label a row as a row that may have any number, for multi-label methods.
        label_noise: with this probability a training label is drawn again within its superclass.
        backbone: of :func:`~shortlist.models.make_backbone`.
        pretrained: whether its weights start from those published with it.
        size: side of the pictures that the network sees; None: their own where all are of one size up to 64, else 64.
        augmentation: what is done to training pictures: ``"shift-flip"`` shifts by up to an eighth of the side,
            ``"crop-flip"`` cuts a window out of a picture larger by 8/7, ``"resized-crop-flip"`` a box of any size.
        epochs: how many.
        epoch_rows: rows that count as an epoch; None: all training rows.
        batch_size: rows of a step, over all processes and micro-batches together.
        accumulate: micro-batches that a step is divided into.
        optimizer: ``"sgd"`` with Nesterov momentum, or ``"adamw"``.
        lr: the largest learning rate.
        momentum: of SGD.
        weight_decay: of either.
        schedule: how the learning rate goes.
        milestones: for ``"step"``, the epochs at whose end the rate is multiplied by ``decay``; one at least before the last.
        decay: see there.
        warmup: epochs of a rate that rises in a straight line; of ``"one-cycle"`` a quarter of all, unless given.
        ema: decay a step of an exponential moving average of the weights, which is then what is evaluated and kept.
        clip: the largest norm of a gradient; longer ones are shortened to it.
        monitor: the validation metric that decides which epoch is kept; None: that which the method is for.
        patience: stop after so many validations without a better one; None: never.
        validate_every: epochs between validations; the last epoch always has one.
        precision: ``"auto"`` is bfloat16 on a GPU that has it, float32 elsewhere.
        compile: whether the network is compiled.
        skip_nonfinite: how many steps with a loss that is not finite are left out before training stops.
        tolerance: the share of pictures that cannot be read above which training stops; three are left out in any case, unless
            it is 0.
        link: how scores read as probabilities, as text; ``"none"``: not at all; None, typed ``"own"``: by the method's own.
        calibration: which link is fitted on validation rows on top of it; ``"auto"``: temperature for one label a row,
            platt for many labels where the method has no link, none else.
        rule: the set rule as text; None, typed ``"none"``: that which the method is for.
        calibration_share: share of the validation rows that the rule is fitted on, kept apart from those that choose the epoch
            and fit the link; 0: the rule is fitted on those very rows, as in the papers.
        seed: of everything random.

    >>> Recipe("mine", data="flora", parameters={"k": 3}).with_settings(lr="0.05", alpha=1.0).parameters["alpha"]
    1.0
    """

    name: str
    data: str
    method: str = "average-k"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    reference: str = ""
    expected: Mapping[str, float] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    labels: Labels = "as-given"
    label_noise: float = 0.0
    backbone: str = "resnet-18"
    pretrained: bool = False
    size: int | None = None
    augmentation: Augmentation = "shift-flip"
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
    skip_nonfinite: int = 0
    tolerance: float = 0.01
    link: str | None = None
    calibration: Calibration = "auto"
    rule: str | None = None
    calibration_share: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        hints = get_type_hints(Recipe)
        for part in fields(self):
            self._keep(part.name, checked_value(part.name, getattr(self, part.name), hints[part.name]))
        self._keep("link", link_text(self.link))
        self._keep("rule", rule_text(self.rule))
        _check_ranges(self)
        self._keep("parameters", MappingProxyType(method_numbers(self.chosen_method)))
        unknown = next((name for name in self.grid if name not in self.settings()), None)
        if unknown is not None:
            raise InputError(f"grid: expected settings of the recipe or parameters of its method, got {unknown!r}")

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash(tuple(hashable(getattr(self, part.name)) for part in fields(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Recipes are sent to other processes by their record."""
        return Recipe.from_record, (self.record(),)

    @property
    def chosen_method(self) -> Method:
        """The method with its numbers."""
        return find_method(self.method).with_parameters(**self.parameters)

    @property
    def k(self) -> float:
        """The set size that the method or, failing that, the rule speaks of; 5 where neither does."""
        if "k" in self.parameters:
            return float(self.parameters["k"])
        size = rule_size(self.rule)
        return 5.0 if size is None else size

    @property
    def title(self) -> str:
        """What the report of its run is headed with."""
        return f"{self.name}: {self.method}"

    def settings(self) -> dict[str, Any]:
        """Every setting by name, the method's parameters among them."""
        return {name: getattr(self, name) for name in _own_names()} | dict(self.parameters)

    def with_settings(self, **changes: Any) -> "Recipe":
        """The same recipe with other settings, given as values or as text; names of the method's parameters go to the method.

        A new method starts from its own defaults, with the old one's k where it has one. As text, ``none`` leaves a setting to
        its default, and of ``link`` it says that scores have no reading as probabilities: the method's own link is ``own``.
        """
        method = checked_value("method", parse_value("method", changes.get("method", self.method), str), str)
        numbers = dict(self.parameters) if method == self.method else _carried(self, method)
        hints = get_type_hints(Recipe)
        kept: dict[str, Any] = {} if method == self.method else {"grid": {}}
        for name, value in changes.items():
            if name in hints:
                kept[name] = parse_value(name, value, hints[name])
            elif name in numbers:
                numbers[name] = parse_value(name, value, str if isinstance(numbers[name], str) else float)
            else:
                raise InputError(_unknown_setting(name, [*_own_names(), *numbers]))
        given = checked_value("parameters", kept.get("parameters", {}), hints["parameters"])
        return replace(self, **{**kept, "parameters": {**numbers, **given}})

    def at(self, path: str) -> "Recipe":
        """The recipe with the data that it was waiting for."""
        if PATH not in self.data:
            raise InputError(f"recipe {self.name}: expected no path, its data are {self.data!r}, got {path!r}")
        return replace(self, data=self.data.replace(PATH, path))

    def record(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {part.name: plain(getattr(self, part.name)) for part in fields(self)}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Recipe":
        """The recipe that wrote this record."""
        wanted = "recipe: expected a record with name and data"
        if not isinstance(record, Mapping):
            raise InputError(f"{wanted}, got {shown(record)}")
        missing = [name for name in ("name", "data") if name not in record]
        if missing:
            raise InputError(f"{wanted}, got one without {' and '.join(missing)}")
        strange = [shown(name) for name in record if name not in get_type_hints(Recipe)]
        if strange:
            raise InputError(f"{wanted} and no other settings than a recipe's, got {', '.join(strange)}")
        return Recipe(**record)

    def differences(self, other: "Recipe") -> dict[str, tuple[Any, Any]]:
        """Settings in which two recipes differ, with both values, what only describes them aside."""
        aside = ("name", "summary", "reference", "expected", "grid")
        mine, theirs = self.settings(), other.settings()
        names = [name for name in dict.fromkeys([*mine, *theirs]) if name not in aside]
        return {name: (mine.get(name), theirs.get(name)) for name in names if mine.get(name) != theirs.get(name)}


def _own_names() -> list[str]:
    """The settings that hold one value each."""
    return [part.name for part in fields(Recipe) if part.name not in ("parameters", "grid", "expected")]


def _carried(recipe: Recipe, method: str) -> dict[str, Any]:
    """The defaults of another method, with the k of this recipe's where both have one."""
    numbers = dict(find_method(method).parameters)
    return numbers | {"k": recipe.parameters["k"]} if "k" in numbers and "k" in recipe.parameters else numbers


def _unknown_setting(name: str, known: Sequence[str]) -> str:
    return f"setting {name!r}: {did_you_mean(name, known)}expected one of {', '.join(known)}"


# setting: least, most; a number that is None is left to its default
RANGES: Mapping[str, tuple[float, float]] = {
    "label_noise": (0, 1),
    "size": (1, 4096),
    "epochs": (1, 1e6),
    "epoch_rows": (1, 2**40),
    "batch_size": (1, 2**24),
    "accumulate": (1, 2**16),
    "momentum": (0, 1),
    "weight_decay": (0, 10),
    "decay": (0, 1),
    "warmup": (0, 1e6),
    "patience": (1, 1e6),
    "validate_every": (1, 1e6),
    "skip_nonfinite": (0, 1e9),
    "tolerance": (0, 1),
    "calibration_share": (0, 0.9),
    "seed": (0, 2**63 - 1),
}


def _check_ranges(recipe: Recipe) -> None:
    for name, (least, most) in RANGES.items():
        value = getattr(recipe, name)
        if value is not None and not least <= value <= most:
            raise InputError(f"{name}: expected a number from {least:g} to {most:g}, got {shown(value)}")
    for name in ("lr", "clip", "ema"):
        value = getattr(recipe, name)
        if value is not None and not (value > 0 and (name != "ema" or value < 1)):
            raise InputError(f"{name}: expected a number above 0{' and below 1' if name == 'ema' else ''}, got {value}")
    if recipe.accumulate > recipe.batch_size:
        raise InputError(f"accumulate: expected at most batch_size, {recipe.batch_size}, got {recipe.accumulate}")
    if recipe.schedule == "step" and not recipe.milestones:
        raise InputError("milestones: expected the epochs at which the step schedule lowers the rate, got none")
    if list(recipe.milestones) != sorted(set(recipe.milestones)) or any(epoch < 1 for epoch in recipe.milestones):
        raise InputError(f"milestones: expected epochs from 1 in rising order, got {recipe.milestones}")
