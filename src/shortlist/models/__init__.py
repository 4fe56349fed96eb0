"""Models: backbones, heads, and the classifier that is saved, exported and asked.

========== =========================================================== ==========================================
head       scores                                                      for
========== =========================================================== ==========================================
linear     weights · features + bias                                   most methods
cosine     cosines between features and class weights                  margins: LDAM, the imbalanced noised hinge
two-head   two linear heads on the same features                       average-k
========== =========================================================== ==========================================
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
