from .answers import Answers as Answers
from .backbones import backbone_names as backbone_names, check_backbone as check_backbone, make_backbone as make_backbone
from .classifier import Classifier as Classifier
from .factories import NetworkNeededError as NetworkNeededError
from .heads import (
    CosineHead as CosineHead,
    LinearHead as LinearHead,
    TwoHead as TwoHead,
    TwoHeadScores as TwoHeadScores,
    make_head as make_head,
)
from .input_spec import InputSpec as InputSpec
from .network import Network as Network
