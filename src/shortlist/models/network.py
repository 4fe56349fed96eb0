"""Network: a backbone and a head, both by name, so that a file can say how to build it again."""

import torch
from torch import Tensor, nn

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.models.backbones import make_backbone
from shortlist.models.heads import TwoHeadScores, make_head
from shortlist.models.inputs import Inputs
from shortlist.tensors import Scores


class Network(nn.Module):
    """Prepared inputs → scores: a backbone, and a head on its features.

    Args:
        backbone: its name, see :func:`~shortlist.models.make_backbone`.
        head: ``"linear"``, ``"cosine"`` or ``"two-head"``.
        inputs: what the network is fed with.
        classes: how many classes the head tells apart.
        pretrained: start from published weights, where the backbone has any.

    Shape: ``inputs.prepare(batch)``, (N, 3, size, size) or (N, features) → (N, C), or two of those from two heads.

    >>> inputs = Inputs("features", 2, mean=(0.0, 0.0), std=(1.0, 1.0))
    >>> Network("mlp-8", "linear", inputs, classes=3)(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    """

    def __init__(self, backbone: str, head: str, inputs: Inputs, classes: int, pretrained: bool = False):
        super().__init__()
        if not isinstance(inputs, Inputs):
            raise InputError(f"inputs: expected Inputs, such as Inputs.of_pictures(images), got {type(inputs).__name__}")
        self.backbone_name, self.head_kind, self.inputs = backbone, head, inputs
        self.num_classes = whole(1)("classes", classes)
        self.backbone = make_backbone(backbone, pretrained=pretrained, features=inputs.features)
        self.head = make_head(head, int(self.backbone.num_features), self.num_classes)  # type: ignore[arg-type]
        if inputs.pictures:
            # Prepared pictures come in this memory format; weights in another would be turned round at every call.
            self.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, prepared: Tensor) -> Scores | TwoHeadScores:
        """Scores (N, C), or the two of a two-head network."""
        scores: Scores | TwoHeadScores = self.head(self.backbone(prepared))
        return scores

    def label_scores(self, prepared: Tensor) -> Scores:
        """The scores that sets are made of, (N, C): of two heads, the multi-label one."""
        scores = self(prepared)
        return scores.scores if isinstance(scores, TwoHeadScores) else scores

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.inputs.shape))
        return f"Network({self.backbone_name}, {self.head_kind} head, {self.inputs.kind} {shape}, {self.num_classes} classes)"
