"""The menu: one entry for each method of the papers and of those they compare with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from torch import nn

from shortlist import losses
from shortlist.checks import one_of
from shortlist.errors import InputError
from shortlist.links import Link, Sigmoid
from shortlist.losses import Loss, PenalisedLoss, class_margins
from shortlist.models import make_head
from shortlist.words import did_you_mean, expected_one_of, shown

Maker: TypeAlias = Callable[..., Loss]

ANY_COUNTS = (1, 1)  # class counts for questions whose answer does not depend on them


@dataclass(frozen=True)
class Method:
    """A head, a loss and a link under one name, with the parameters of the paper.

    Args:
        name: the name that users choose it by, in lower case.
        summary: a few words about it.
        labels: labels per row: exactly one, or any number.
        make_loss: builds the loss from the parameters, after the class counts if it needs them.
        parameters: the parameters of the loss, with their defaults.
        reference: the paper they come from.
        head_kind: the name of its head.
        needs_counts: whether the loss needs the number of training examples of each class.
        sets_of_k: whether it is trained for sets of exactly k labels, rather than k on average or any number.
        rule: the rule it is trained for, as text with its parameters in braces; by default one that follows from the above.

    >>> method = find_method("average-k", k=5, alpha=0.3)
    >>> method.head(features=512, classes=100)
    TwoHead(
      (labels): LinearHead(in_features=512, out_features=100, bias=True)
      (proposal): LinearHead(in_features=512, out_features=100, bias=True)
    )
    >>> method.loss()
    AverageKLoss(k=5, alpha=0.3)
    >>> method.link()
    softmax
    """

    name: str
    summary: str
    labels: Literal["one", "any"]
    make_loss: Maker = field(repr=False)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""
    head_kind: str = "linear"
    needs_counts: bool = False
    sets_of_k: bool = False
    rule: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        """Methods are copied and pickled by name."""
        return _rebuilt, (self.name, dict(self.parameters))

    def with_parameters(self, **changes: Any) -> "Method":
        """The same method with some parameters changed."""
        for name in changes:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "no parameters"
                raise InputError(f"method {self.name}: {did_you_mean(name, self.parameters)}expected {known}; got {name!r}")
        return replace(self, parameters=MappingProxyType({**self.parameters, **changes}))

    def head(self, features: int, classes: int) -> nn.Module:
        """A new head."""
        return make_head(self.head_kind, features, classes)

    def loss(self, counts: Any = None) -> Loss:
        """The loss; methods for long tails compute its margins from the class counts of the training set."""
        if not self.needs_counts:
            return self.make_loss(**self.parameters)
        if counts is None:
            raise InputError(f"method {self.name}: expected counts, the training examples of each class, got none")
        return self.make_loss(counts, **self.parameters)

    def link(self, counts: Any = None) -> Link | None:
        """The link that turns scores into probabilities; None if they cannot be interpreted as such."""
        return self.loss(counts).link()

    @property
    def trains_link(self) -> bool:
        """Whether training updates the link, so that it needs no fit."""
        link = self.link(ANY_COUNTS)
        return link is not None and link.running

    @property
    def keeps_row_state(self) -> bool:
        """Whether training learns something about every training row, such as label estimates."""
        return self.loss(ANY_COUNTS).keeps_row_state


def _ldam(counts: Any, *, max_margin: float, scale: float) -> Loss:
    return losses.LdamLoss(margins=class_margins(counts, max_margin), scale=scale)


def _imbalanced(counts: Any, *, k: int, epsilon: float, samples: int, max_margin: float, scale: float) -> Loss:
    margins = class_margins(counts, max_margin)
    return losses.NoisedTopkHingeLoss(k=k, epsilon=epsilon, samples=samples, margin=margins, scale=scale)


class _SigmoidFocalLoss(losses.AsymmetricFocalLoss):
    """The asymmetric focal loss with the sigmoid as its link, as in the tables of the papers."""

    def link(self) -> Link:
        """Sigmoid, whose values are not the probabilities that the minimiser stands for."""
        return Sigmoid()


_FOCAL_LOSSES = {"recovered": losses.AsymmetricFocalLoss, "sigmoid": _SigmoidFocalLoss}


def _focal(*, probabilities: str, **parameters: Any) -> Loss:
    return _FOCAL_LOSSES[one_of(*_FOCAL_LOSSES)("probabilities", probabilities)](**parameters)


def _with_pairs(make_loss: Maker) -> Maker:
    def make(*, pair_weight: float, **parameters: Any) -> Loss:
        return PenalisedLoss(make_loss(**parameters), losses.LabelPairPenalty(), pair_weight)

    return make


def _conformal(*, conformal_weight: float, **parameters: Any) -> Loss:
    return PenalisedLoss(losses.CrossEntropyLoss(), losses.ConformalTrainingLoss(**parameters), conformal_weight)


def _with_outliers(term: type[Loss]) -> Maker:
    def make(*, outlier_weight: float) -> Loss:
        return PenalisedLoss(losses.CrossEntropyLoss(), term(), outlier_weight)

    return make


def _method(
    name: str,
    summary: str,
    labels: Literal["one", "any"],
    make_loss: Maker,
    reference: str = "",
    parameters: Mapping[str, Any] | None = None,
    *,
    head: str = "linear",
    **particulars: Any,
) -> Method:
    numbers = MappingProxyType(dict(parameters or {}))
    return Method(name, summary, labels, make_loss, numbers, reference, head, **particulars)


_SPA = {"zeta_pos": 1.0, "k_pos": 1.0, "b_pos": 0.0, "zeta_neg": 5.0, "k_neg": 3.0, "b_neg": 1.0}
# "recovered" inverts the minimiser of the loss (φ of Cheng, eq. 14), "sigmoid" is σ(scores), as in the tables of the papers.
_FOCAL = {"gamma_pos": 2.0, "gamma_neg": 2.0, "probabilities": "recovered"}
_ASY = {"gamma_pos": 0.0, "gamma_neg": 4.0, "shift": 0.05, "probabilities": "recovered"}
_PAIRS = {"pair_weight": 1.0}
_NOISED = {"k": 5, "epsilon": 1.0, "samples": 5, "smoothing": "noised"}
_TWO_WAY = {"positive_temperature": 4.0, "negative_temperature": 1.0}
_TAIL: dict[str, Any] = {"head": "cosine", "needs_counts": True}
_IMBALANCED = {"k": 5, "epsilon": 0.01, "samples": 5, "max_margin": 0.2, "scale": 60.0}

_ALL = (
    _method("cross-entropy", "the baseline; consistent for top-k and average-k", "one", losses.CrossEntropyLoss),
    _method("focal", "less weight for easy rows", "one", losses.FocalLoss, "Lin 2017", {"gamma": 2.0}),
    _method("ldam", "larger margins for rarer classes", "one", _ldam, "Cao 2019", {"max_margin": 0.2, "scale": 40.0}, **_TAIL),
    _method("topk-hinge", "not top-k calibrated", "one", losses.TopkHingeLoss, "Lapin 2015", {"k": 5}, sets_of_k=True),
    _method(
        "convex-topk-hinge", "not top-k calibrated", "one", losses.ConvexTopkHingeLoss, "Lapin 2015", {"k": 5}, sets_of_k=True
    ),
    _method(
        "calibrated-topk-hinge",
        "cannot train deep networks",
        "one",
        losses.CalibratedTopkHingeLoss,
        "Yang 2020",
        {"k": 5},
        sets_of_k=True,
    ),
    _method(
        "smooth-topk",
        "smooth over all sets of k",
        "one",
        losses.SmoothTopkHingeLoss,
        "Berrada 2018",
        {"k": 5, "temperature": 1.0},
        sets_of_k=True,
    ),
    _method("noised-topk", "top-k", "one", losses.NoisedTopkHingeLoss, "Garcin 2022, eq. 10", _NOISED, sets_of_k=True),
    _method(
        "noised-topk-imbalanced",
        "top-k, long tail",
        "one",
        _imbalanced,
        "Garcin 2022, eq. 13",
        _IMBALANCED,
        sets_of_k=True,
        **_TAIL,
    ),
    _method("sparse-top", "sparse probabilities", "any", losses.SparseTopLoss, "Garcin thesis, 6.2"),
    _method("assume-negative", "sigmoids, unobserved labels absent", "one", losses.AssumeNegativeLoss, "Cole 2021"),
    _method(
        "expected-positive", "sigmoids, k on average", "one", losses.ExpectedPositiveLoss, "Cole 2021", {"k": 5, "beta": 0.01}
    ),
    _method(
        "role",
        "learns label estimates",
        "one",
        losses.RoleLoss,
        "Cole 2021",
        {"k": 5, "weight": 0.0, "estimates_rate": 1.0},
    ),
    _method(
        "average-k",
        "k on average",
        "one",
        losses.AverageKLoss,
        "Garcin 2023",
        {"k": 5, "alpha": 0.3},
        head="two-head",
    ),
    _method(
        "conformal-training",
        "cross-entropy and small conformal sets",
        "one",
        _conformal,
        "Stutz 2022",
        {"conformal_weight": 0.5, "alpha": 0.1, "temperature": 1.0, "size_weight": 1.0},
        rule="lac:{alpha}",
    ),
    _method("bce", "independent sigmoids", "any", losses.BinaryCrossEntropyLoss),
    _method("softmax", "one softmax; shares of the labels of a row", "any", losses.CrossEntropyLoss, "Liao, Table III"),
    _method("focal-multilabel", "less weight for easy labels", "any", _focal, "Cheng, eq. 7", _FOCAL),
    _method("asy", "ASY, with its link φ", "any", _focal, "Ridnik 2021; Cheng, eqs. 8 and 14", _ASY),
    _method("two-way", "ranks labels and rows", "any", losses.TwoWayLoss, "Kobayashi 2023", _TWO_WAY),
    _method("spa", "asymmetric and calibrated", "any", losses.SpaLoss, "Cheng, eqs. 16 and 17", _SPA),
    _method(
        "spa-label-pair",
        "SPA with label pairs",
        "any",
        _with_pairs(losses.SpaLoss),
        "Cheng, section 3.4",
        _PAIRS | _SPA,
    ),
    _method(
        "bce-label-pair",
        "BCE with label pairs",
        "any",
        _with_pairs(losses.BinaryCrossEntropyLoss),
        "Cheng, Table 4",
        _PAIRS,
    ),
    _method("focal-label-pair", "focal with label pairs", "any", _with_pairs(_focal), "Cheng, Table 4", _PAIRS | _FOCAL),
    _method("asymmetric-label-pair", "ASY with label pairs", "any", _with_pairs(_focal), "Cheng, Table 4", _PAIRS | _ASY),
    _method("quasibinary", "zero, one or many labels", "any", losses.QuasibinaryLoss, "Liao, eqs. 10 to 12"),
    _method(
        "softmax-uniform",
        "softmax; uniform without a label",
        "any",
        _with_outliers(losses.UniformOutlierLoss),
        "Lee 2018",
        {"outlier_weight": 1.0},
    ),
    _method(
        "softmax-confidence",
        "softmax; unsure without a label",
        "any",
        _with_outliers(losses.ConfidenceOutlierLoss),
        "Hein 2019",
        {"outlier_weight": 1.0},
    ),
)
METHODS: dict[str, Method] = {method.name: method for method in _ALL}


def all_methods() -> tuple[Method, ...]:
    """All methods.

    >>> [method.name for method in all_methods() if method.head_kind == "cosine"]
    ['ldam', 'noised-topk-imbalanced']
    """
    return tuple(METHODS.values())


def find_method(name: str, **parameters: Any) -> Method:
    """The method of this name, with some parameters changed.

    >>> find_method("noised-topk", k=3).parameters["k"]
    3
    """
    if name not in METHODS:
        raise InputError(f"method: {expected_one_of(name, METHODS, 'docs/losses.md')}; got {shown(name)}")
    return METHODS[name].with_parameters(**parameters)


def register_method(method: Method) -> Method:
    """Add a method, so that it can be trained with by name: ``shortlist.train(data, method="NAME")``.

    A process that resumes the run must register the method too; on the command line, ``--import`` names the module that does.

    Args:
        method: the method; its name must be free, or belong to the same method defined again, as in a notebook.

    Returns:
        The method.

    >>> from shortlist.losses import FocalLoss
    >>> method = register_method(Method("sharp-focal", "focal with a large gamma", "one", FocalLoss, {"gamma": 5.0}))
    >>> find_method("sharp-focal").loss()
    FocalLoss(gamma=5.0)
    """
    if not method.name or method.name != method.name.lower() or any(sign in method.name for sign in ":, "):
        raise InputError(f"name: expected lower case without spaces, commas and colons, got {shown(method.name)}")
    known = METHODS.get(method.name)
    if known is not None and _origin(known.make_loss) != _origin(method.make_loss):
        raise InputError(f"name: {shown(method.name)} is already the method with {'.'.join(_origin(known.make_loss))}")
    METHODS[method.name] = replace(method, parameters=MappingProxyType(dict(method.parameters)))
    return METHODS[method.name]


def _origin(maker: Maker) -> tuple[str, str]:
    return maker.__module__, maker.__qualname__


def _rebuilt(name: str, parameters: dict[str, Any]) -> Method:
    return find_method(name, **parameters)
