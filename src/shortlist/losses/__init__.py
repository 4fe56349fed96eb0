"""Losses: each is a function ``(scores, target, *, …, reduction="mean")`` and a module of the same name.

=========================== ==================================== ============== =====================================
function                    labels per row                       elicits        link
=========================== ==================================== ============== =====================================
cross_entropy_loss          one (or several, sharing equally)    probabilities  softmax
focal_loss                  one                                  probabilities  softmax-focal-recovery
ldam_loss                   one, long tail                       probabilities  ldam
topk_hinge_loss             one                                  nothing        none
convex_topk_hinge_loss      one                                  nothing        none
calibrated_topk_hinge_loss  one                                  top-k set      none
smooth_topk_hinge_loss      one                                  top-k set      none
noised_topk_hinge_loss      one, long tail with class margins    top-k set      none
sparse_top_loss             one, or k                            probabilities  sparse-top
assume_negative_loss        one observed                         probabilities  assume-negative
expected_positive_loss      one observed                         order          sigmoid
role_loss                   one observed                         nothing        sigmoid
average_k_loss              one observed, two heads              average-k set  softmax
cardinality_aware_loss      one, a head for sizes                probabilities  softmax
conformal_training_loss     one                                  nothing        softmax
binary_cross_entropy_loss   any number                           probabilities  sigmoid
asymmetric_focal_loss       any number                           probabilities  focal-recovery
spa_loss                    any number                           probabilities  spa
two_way_loss                any number                           nothing        none
label_pair_penalty          any number; added to another loss    order          sigmoid
quasibinary_loss            any number                           probabilities  quasibinary
uniform_outlier_loss        none; added to another loss          nothing        softmax
confidence_outlier_loss     none; added to another loss          nothing        softmax
=========================== ==================================== ============== =====================================

The link turns the scores of a network trained with the loss into probabilities. Losses for one label per row
take an ``ignore_index`` and, if they are a mean over rows, a ``weight`` per class, both as in ``torch.nn.CrossEntropyLoss``.
For very many classes, :func:`loss_of_linear` computes a linear head and its loss together, without storing the scores.
"""

from shortlist.losses.average_k import AverageKLoss, average_k_loss
from shortlist.losses.cardinality import CardinalityAwareLoss, cardinality_aware_loss
from shortlist.losses.conformal import ConformalTrainingLoss, conformal_training_loss
from shortlist.losses.hinges import (
    CalibratedTopkHingeLoss,
    ConvexTopkHingeLoss,
    NoisedTopkHingeLoss,
    TopkHingeLoss,
    calibrated_topk_hinge_loss,
    convex_topk_hinge_loss,
    noised_topk_hinge_loss,
    topk_hinge_loss,
)
from shortlist.losses.linear import loss_of_linear, supports_linear
from shortlist.losses.loss import Loss, LossState
from shortlist.losses.multilabel import (
    AsymmetricFocalLoss,
    BinaryCrossEntropyLoss,
    SpaLoss,
    asymmetric_focal_loss,
    binary_cross_entropy_loss,
    spa_loss,
)
from shortlist.losses.outliers import ConfidenceOutlierLoss, UniformOutlierLoss, confidence_outlier_loss, uniform_outlier_loss
from shortlist.losses.pairs import LabelPairPenalty, TwoWayLoss, label_pair_penalty, two_way_loss
from shortlist.losses.penalised import PenalisedLoss
from shortlist.losses.positives import AssumeNegativeLoss, ExpectedPositiveLoss, assume_negative_loss, expected_positive_loss
from shortlist.losses.quasibinary import QuasibinaryLoss, quasibinary_loss
from shortlist.losses.role import RoleEstimates, RoleLoss, role_loss
from shortlist.losses.single import (
    CrossEntropyLoss,
    FocalLoss,
    LdamLoss,
    class_margins,
    cross_entropy_loss,
    focal_loss,
    ldam_loss,
)
from shortlist.losses.smooth_hinge import SmoothTopkHingeLoss, smooth_topk_hinge_loss
from shortlist.losses.sparse_top import SparseTopLoss, sparse_top_loss
from shortlist.operators import expected_top_value, noised_top_value, soft_top_value, sparse_top
from shortlist.tensors import TwoHeadScores

__all__ = [
    "AssumeNegativeLoss",
    "AsymmetricFocalLoss",
    "AverageKLoss",
    "BinaryCrossEntropyLoss",
    "CalibratedTopkHingeLoss",
    "CardinalityAwareLoss",
    "ConfidenceOutlierLoss",
    "ConformalTrainingLoss",
    "ConvexTopkHingeLoss",
    "CrossEntropyLoss",
    "ExpectedPositiveLoss",
    "FocalLoss",
    "LabelPairPenalty",
    "LdamLoss",
    "Loss",
    "LossState",
    "NoisedTopkHingeLoss",
    "PenalisedLoss",
    "QuasibinaryLoss",
    "RoleEstimates",
    "RoleLoss",
    "SmoothTopkHingeLoss",
    "SpaLoss",
    "SparseTopLoss",
    "TopkHingeLoss",
    "TwoHeadScores",
    "TwoWayLoss",
    "UniformOutlierLoss",
    "assume_negative_loss",
    "asymmetric_focal_loss",
    "average_k_loss",
    "binary_cross_entropy_loss",
    "calibrated_topk_hinge_loss",
    "cardinality_aware_loss",
    "class_margins",
    "confidence_outlier_loss",
    "conformal_training_loss",
    "convex_topk_hinge_loss",
    "cross_entropy_loss",
    "expected_positive_loss",
    "expected_top_value",
    "focal_loss",
    "label_pair_penalty",
    "ldam_loss",
    "loss_of_linear",
    "noised_top_value",
    "noised_topk_hinge_loss",
    "quasibinary_loss",
    "role_loss",
    "smooth_topk_hinge_loss",
    "soft_top_value",
    "spa_loss",
    "sparse_top",
    "sparse_top_loss",
    "supports_linear",
    "topk_hinge_loss",
    "two_way_loss",
    "uniform_outlier_loss",
]
