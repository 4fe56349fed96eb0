"""Network: any module from prepared inputs to scores, either a backbone and a head or a whole network written elsewhere."""

import copy
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from shortlist.checks import one_of, whole
from shortlist.errors import InputError
from shortlist.models.backbones import make_backbone
from shortlist.models.heads import HEAD_NAMES, HeadName, TwoHeadScores, make_head
from shortlist.models.input_spec import InputSpec
from shortlist.predictions.network_digests import joined_digest
from shortlist.tensors import Scores, shape_of
from shortlist.words import listed

Head: TypeAlias = str | nn.Module | Callable[[int, int], nn.Module]
EXPECTED = "scores (N, C), a TwoHeadScores pair, or an output with logits"


class Network(nn.Module):
    """Prepared inputs → scores: a backbone, and a head on its features. Both are names or modules.

    A network that is one module, without a backbone and a head of its own, is wrapped by :meth:`wrapping`.

    Args:
        backbone: a name, see :func:`~shortlist.models.make_backbone`, or a module from prepared inputs to features (N, F). F
            is found by running the module once, in evaluation mode, on a batch of zeros.
        head: ``"linear"``, ``"cosine"``, ``"two-head"``, a module from features to scores, or a function
            ``(features, classes) → module``.
        inputs: what the network reads.
        classes: the number of classes, C.
        pretrained: start from published weights, if the named backbone has any.

    Shape: ``inputs.prepare(batch)``, (N, 3, size, size) or (N, features) → (N, C), or a pair of those from two heads.

    >>> inputs = InputSpec.features(2)
    >>> Network("mlp-8", "linear", inputs, classes=3)(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    >>> Network(nn.Sequential(nn.Linear(2, 7), nn.ReLU()), "cosine", inputs, classes=3).features(torch.zeros(5, 2)).shape
    torch.Size([5, 7])
    """

    #: which parts are modules written elsewhere, which a file cannot build: "backbone", "head", "network"
    foreign: tuple[str, ...] = ()
    #: the import path of the function that made them, ``package.module:function``, if there is one
    factory: str | None = None
    #: which head of two gives the scores
    scored_head: HeadName = "labels"

    def __init__(self, backbone: str | nn.Module, head: Head, inputs: InputSpec, classes: int, pretrained: bool = False):
        super().__init__()
        self._keep(inputs, classes)
        parts = (("backbone", backbone), ("head", head))
        self.foreign = tuple(name for name, part in parts if not isinstance(part, str))
        if isinstance(backbone, nn.Module):
            if pretrained:
                raise InputError("pretrained: expected False with a backbone that is a module, which has weights of its own")
            self.backbone_name, self.backbone = type(backbone).__name__, backbone
            width = _probed_width(self)
        else:
            self.backbone_name = backbone
            self.backbone = make_backbone(backbone, pretrained=pretrained, features=inputs.num_features)
            width = int(self.backbone.num_features)  # type: ignore[arg-type]
            if inputs.is_pictures:
                # Prepared pictures come in this memory format; weights in another would be converted at every call.
                self.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.head, self.head_kind = _made_head(head, width, self.num_classes)
        if not isinstance(head, str):
            self.check_output()

    def _keep(self, inputs: InputSpec, classes: int) -> None:
        if not isinstance(inputs, InputSpec):
            raise InputError(f"inputs: expected an InputSpec, such as InputSpec.pictures(224), got {type(inputs).__name__}")
        self.inputs, self.num_classes = inputs, whole(1)("classes", classes)

    @staticmethod
    def wrapping(module: nn.Module, inputs: InputSpec, classes: int) -> "Network":
        """A network around a whole module, whose output is scores (N, C), a ``TwoHeadScores`` pair or has ``.logits``.

        The module is run once, in evaluation mode, on a batch of zeros, to check its output.

        >>> Network.wrapping(nn.Linear(2, 3), InputSpec.features(2), classes=3)
        Network(Linear, features 2, 3 classes)
        """
        return module if isinstance(module, Network) else WholeNetwork(module, inputs, classes)

    def forward(self, prepared: Tensor) -> Scores | TwoHeadScores:
        """Scores (N, C), or the pair of a two-head network."""
        output = self.head(self.features(prepared))
        return as_scores(output, self.num_classes) if self.foreign else output

    def features(self, prepared: Tensor) -> Tensor:
        """The embeddings that the head turns into scores, (N, F)."""
        if self.mirrors:
            return (self._one_way(prepared) + self._one_way(prepared.flip(3))) / 2
        return self._one_way(prepared)

    def _one_way(self, prepared: Tensor) -> Tensor:
        # Modules written elsewhere may flatten by .view, which channels-last memory does not allow.
        given = prepared.contiguous() if "backbone" in self.foreign else prepared
        features: Tensor = self.backbone(given)
        return features

    @property
    def mirrors(self) -> bool:
        """Whether the network is now run on mirror images too: outside of training, if its inputs say so."""
        return self.inputs.mirror and not self.training

    def label_scores(self, prepared: Tensor) -> Scores:
        """The scores that sets are made from, (N, C); of two heads, those of :attr:`scored_head`."""
        return self._of_scored_head(self(prepared))

    def label_scores_and_features(self, prepared: Tensor) -> tuple[Scores, Tensor]:
        """The scores that sets are made from, (N, C), and the embeddings (N, F) they were computed from, in one pass."""
        features = self.features(prepared)
        output = self.head(features)
        return self._of_scored_head(as_scores(output, self.num_classes) if self.foreign else output), features

    def _of_scored_head(self, scores: Scores | TwoHeadScores) -> Scores:
        if not isinstance(scores, TwoHeadScores):
            return scores
        return scores.proposal_scores if self.scored_head == "proposal" else scores.scores

    def with_head(self, head: HeadName) -> "Network":
        """The same network, weights included, with the scores of the other of its two heads.

        Args:
            head: ``"labels"``, the multi-label head, or ``"proposal"``.

        >>> network = Network("features", "two-head", InputSpec.features(2), classes=3).with_head("proposal")
        >>> bool((network.label_scores(torch.ones(1, 2)) == network.head.proposal(torch.ones(1, 2))).all())
        True
        """
        head = one_of(*HEAD_NAMES)("head", head)
        if head == self.scored_head:
            return self
        if self.head_kind != "two-head" and not isinstance(self.check_output(), TwoHeadScores):
            raise InputError(f"head: expected 'labels', since this network ({self.describe()}) has one head, got {head!r}")
        other = copy.copy(self)  # shares all modules
        other.scored_head = head
        return other

    @property
    def device(self) -> torch.device:
        """The device of the weights; the CPU for a network without any."""
        return _first_tensor(self).device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the weights."""
        return _first_tensor(self).dtype

    def cast(self, prepared: Tensor) -> Tensor:
        """Prepared inputs in the floating-point type of the weights; raw bytes stay bytes."""
        return prepared.to(self.dtype) if prepared.is_floating_point() else prepared

    def check_output(self) -> Scores | TwoHeadScores:
        """Run the network once, in evaluation mode, on a batch of zeros; raises if the output is not scores."""
        with probing(self, self.inputs) as prepared:
            output: Scores | TwoHeadScores = self(prepared)
        return output

    def digest(self) -> str:
        """Digest of the weights as they are saved, in float32, and of the inputs: the same on every device, and after saving.

        The two heads of a network have different digests, and so have answers with and without mirror images, and equal weights
        whose inputs are prepared in different ways, so that their scores are not taken for those of one classifier.
        """
        found = hashlib.sha256(b"" if self.scored_head == "labels" else self.scored_head.encode())
        if self.inputs.mirror:
            found.update(b"mirror")
        for name, tensor in self.state_dict().items():
            if isinstance(tensor, Tensor):
                saved = (tensor.float() if tensor.is_floating_point() else tensor).detach().cpu().contiguous()
                found.update(f"{name} {tuple(saved.shape)} {saved.dtype} ".encode())
                found.update(saved.numpy().tobytes())
        return joined_digest(found.hexdigest(), self.inputs.digest())

    def describe(self) -> str:
        """The parts by name: ``resnet-18, linear head``."""
        return f"{self.backbone_name}, {self.head_kind} head" + (", proposal scores" if self.scored_head == "proposal" else "")

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.inputs.shape))
        return f"Network({self.describe()}, {self.inputs.kind} {shape}, {self.num_classes} classes)"


class WholeNetwork(Network):
    """A network around one module written elsewhere; see :meth:`Network.wrapping`."""

    foreign = ("network",)

    def __init__(self, module: nn.Module, inputs: InputSpec, classes: int):
        nn.Module.__init__(self)
        if not isinstance(module, nn.Module):
            raise InputError(f"network: expected a torch.nn.Module, got {type(module).__name__}")
        self._keep(inputs, classes)
        self.backbone_name, self.head_kind, self.module = type(module).__name__, "own", module
        self.check_output()

    def forward(self, prepared: Tensor) -> Scores | TwoHeadScores:
        """Scores (N, C), or the pair of a two-head network."""
        scores = self._one_way_scores(prepared)
        if not self.mirrors:
            return scores
        mirrored = self._one_way_scores(prepared.flip(3))
        if isinstance(scores, TwoHeadScores) and isinstance(mirrored, TwoHeadScores):
            return TwoHeadScores(*((one + other) / 2 for one, other in zip(scores, mirrored, strict=True)))
        assert isinstance(scores, Tensor)  # one module gives one kind of output
        assert isinstance(mirrored, Tensor)
        return (scores + mirrored) / 2

    def _one_way_scores(self, prepared: Tensor) -> Scores | TwoHeadScores:
        return as_scores(self.module(prepared.contiguous()), self.num_classes)

    def _one_way(self, prepared: Tensor) -> Tensor:
        """The embeddings (N, F), if the module has a method for them: ``features``, or timm's ``forward_features``."""
        module: Any = self.module
        own = inspect.ismethod(getattr(module, "features", None))  # in torchvision, features may be a submodule
        if not own and not callable(getattr(module, "forward_features", None)):
            raise InputError(
                f"network: expected {type(module).__name__} to have a method features(inputs) or forward_features(inputs) that "
                "returns embeddings (N, F), got neither: add one, or build Network(backbone, head, inputs, classes)"
            )
        prepared = prepared.contiguous()
        found = module.features(prepared) if own else module.forward_features(prepared)
        if not own and callable(getattr(module, "forward_head", None)):
            found = module.forward_head(found, pre_logits=True)
        if not isinstance(found, Tensor) or found.ndim != 2:
            raise InputError(f"network: expected {type(module).__name__} to return embeddings (N, F), got {_came(found)}")
        return found

    def label_scores_and_features(self, prepared: Tensor) -> tuple[Scores, Tensor]:
        """The scores (N, C) and the embeddings (N, F): a pass each, since only the module knows how they relate."""
        return self.label_scores(prepared), self.features(prepared)

    def describe(self) -> str:
        """The class of the module."""
        return self.backbone_name


def as_scores(output: Any, classes: int) -> Scores | TwoHeadScores:
    """What a module returned, as scores (N, C) or a pair of them.

    >>> as_scores({"logits": torch.zeros(2, 3)}, classes=3).shape
    torch.Size([2, 3])
    """
    if isinstance(output, TwoHeadScores):
        return TwoHeadScores(*(_checked_scores(scores, classes, output) for scores in output))
    if not isinstance(output, Tensor):
        logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
        return _checked_scores(logits, classes, output)
    return _checked_scores(output, classes, output)


def _checked_scores(scores: Any, classes: int, output: Any) -> Scores:
    if not isinstance(scores, Tensor) or scores.ndim != 2 or scores.shape[1] != classes or not scores.is_floating_point():
        raise InputError(f"network: expected {EXPECTED}, for {classes} classes; got {_came(output)}")
    return scores


def _came(output: Any) -> str:
    """What a module returned, in a few words."""
    if isinstance(output, Tensor):
        return shape_of(output)
    if isinstance(output, Mapping):
        return f"{type(output).__name__} with {listed([str(key) for key in output])}"
    if isinstance(output, tuple | list):
        return f"{type(output).__name__} of {listed([_came(part) for part in output], 4) or 'nothing'}"
    return type(output).__name__


def _made_head(head: Any, features: int, classes: int) -> tuple[nn.Module, str]:
    """The head and its name."""
    if isinstance(head, str):
        return make_head(head, features, classes), head
    made = head if isinstance(head, nn.Module) else head(features, classes) if callable(head) else None
    if not isinstance(made, nn.Module):
        came = type(head if made is None else made).__name__
        raise InputError(f"head: expected a name, a module, or a function (features, classes) that returns one, got {came}")
    return made, type(made).__name__


def _probed_width(network: Network) -> int:
    """The number of features that a backbone returns, from one run; its own ``num_features``, if any, has to agree."""
    with probing(network.backbone, network.inputs) as prepared:
        features = network.features(prepared)
    if not isinstance(features, Tensor) or features.ndim != 2:
        hint = "; pool and flatten them first" if isinstance(features, Tensor) and features.ndim > 2 else ""
        raise InputError(f"backbone: expected {network.backbone_name} to return features (N, F), got {_came(features)}{hint}")
    told = getattr(network.backbone, "num_features", None)
    if isinstance(told, int) and told != features.shape[1]:
        raise InputError(
            f"backbone: expected {told} features, as num_features of {network.backbone_name} says, got {features.shape[1]}; "
            "if it ends in a classifier, wrap it whole: Network.wrapping(module, inputs, classes)"
        )
    return features.shape[1]


@contextmanager
def probing(module: nn.Module, inputs: InputSpec) -> Iterator[Tensor]:
    """A prepared batch of zeros where the module is; inside, nothing is trained, counted or drawn."""
    tensor = _first_tensor(module)
    devices = [tensor.device] if tensor.device.type == "cuda" else []
    with evaluating(module), torch.no_grad(), torch.random.fork_rng(devices=devices):
        prepared = inputs.prepare(inputs.example(device=tensor.device))
        yield prepared.to(tensor.dtype) if prepared.is_floating_point() else prepared


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every submodule is back in the mode it was in."""
    training = [part for part in module.modules() if part.training]
    try:
        module.eval()
        yield
    finally:
        for part in training:
            part.training = True


def _first_tensor(module: nn.Module) -> Tensor:
    """A floating-point weight or buffer, which tells the device and the dtype of all."""
    tensors = (tensor for source in (module.parameters(), module.buffers()) for tensor in source)
    return next((tensor for tensor in tensors if tensor.is_floating_point()), torch.zeros(()))
