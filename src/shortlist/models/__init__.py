"""Models: today their heads, which turn features into scores.

========== =========================================================== ==========================================
head       scores                                                      for
========== =========================================================== ==========================================
linear     weights · features + bias                                   most methods
cosine     cosines between features and class weights                  margins: LDAM, the imbalanced noised hinge
two-head   two linear heads on the same features                       average-k
========== =========================================================== ==========================================
"""

from shortlist.models.heads import CosineHead, LinearHead, TwoHead, TwoHeadScores, make_head

__all__ = ["CosineHead", "LinearHead", "TwoHead", "TwoHeadScores", "make_head"]
