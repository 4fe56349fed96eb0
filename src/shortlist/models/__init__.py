"""Models: backbones, heads, and the classifier that is saved, exported and asked.

========== =========================================================== ==========================================
head       scores                                                      for
========== =========================================================== ==========================================
linear     weights · features + bias                                   most methods
cosine     cosines between features and class weights                  margins: LDAM, the imbalanced noised hinge
two-head   two linear heads on the same features                       average-k
========== =========================================================== ==========================================
"""

from typing import TYPE_CHECKING

from shortlist.lazy import loaded_on_use
from shortlist.models.heads import CosineHead, LinearHead, TwoHead, TwoHeadScores, make_head

if TYPE_CHECKING:
    from shortlist.models.answers import Answers
    from shortlist.models.backbones import backbone_names, check_backbone, make_backbone
    from shortlist.models.classifier import Classifier
    from shortlist.models.inputs import Inputs
    from shortlist.models.network import Network

# Losses need heads alone; what brings data and files with it is loaded when it is first used.
HOMES = {
    "Answers": "answers",
    "Classifier": "classifier",
    "Inputs": "inputs",
    "Network": "network",
    "backbone_names": "backbones",
    "check_backbone": "backbones",
    "make_backbone": "backbones",
}

__all__ = [
    "Answers",
    "Classifier",
    "CosineHead",
    "Inputs",
    "LinearHead",
    "Network",
    "TwoHead",
    "TwoHeadScores",
    "backbone_names",
    "check_backbone",
    "make_backbone",
    "make_head",
]

__getattr__ = loaded_on_use(__name__, HOMES)
