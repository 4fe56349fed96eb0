"""Backbones: prepared inputs → features (N, F), where F is the attribute ``num_features``.

=============================== ======== ========================================================== =====================
name                            reads    is                                                         features
=============================== ======== ========================================================== =====================
``resnet-DEPTH[xWIDTH][/STEM]`` pictures He et al. 2016; ``resnet-20``, ``resnet-18/4``             64, 512 or 2048 x WIDTH
``densenet-DEPTH-GROWTH``       pictures Huang et al. 2017, plain; ``densenet-40-40``               16 + (DEPTH - 4) GROWTH
``densenet-bc-DEPTH-GROWTH``    pictures the same with bottleneck and compression                   342 for 100, 12
``vgg-DEPTH``                   pictures Simonyan, Zisserman 2015, BatchNorm; 11, 13, 16 or 19      512
``plain-WIDTH[-WIDTH…]``        pictures convolutions of stride 2, no BatchNorm; for tests          the last WIDTH
``features``                    tables   the table itself                                           its columns
``mlp-WIDTH[xLAYERS]``          tables   linear layers with ReLU                                    WIDTH
``torchvision:NAME``            pictures a classification model of torchvision, where installed     its last layer's
``timm:NAME``                   pictures one of timm, where installed                               its last layer's
=============================== ======== ========================================================== =====================
"""

from shortlist.models.backbones.densenet import DenseNet
from shortlist.models.backbones.features import MLP, FeatureTable
from shortlist.models.backbones.foreign import ForeignBackbone
from shortlist.models.backbones.names import backbone_inputs, backbone_names, check_backbone, make_backbone
from shortlist.models.backbones.pictures import PictureBackbone, PlainNet
from shortlist.models.backbones.resnet import ResNet
from shortlist.models.backbones.vgg import VGG

__all__ = [
    "MLP",
    "VGG",
    "DenseNet",
    "FeatureTable",
    "ForeignBackbone",
    "PictureBackbone",
    "PlainNet",
    "ResNet",
    "backbone_inputs",
    "backbone_names",
    "check_backbone",
    "make_backbone",
]
