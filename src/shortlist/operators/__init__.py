"""Operators on the rows of scores: smooth forms of the k-th largest, and a sparse projection.

================== ======================================================== ===================== ===============
name               value                                                    gradient              cost
================== ======================================================== ===================== ===============
noised_top_value   mean over draws of the k-th largest with noise           one-hot, averaged     O(C) per draw
expected_top_value the expectation of that, by quadrature                   exact                 O(kC), hundreds
soft_top_value     the level that k - 1/2 noised scores exceed on average   exact, implicit       O(C)
sparse_top         the nearest point with entries in [0, 1] that sum to k   exact                 O(C)
================== ======================================================== ===================== ===============
"""

from shortlist.operators.expected import expected_top_value
from shortlist.operators.noised import noised_top_value
from shortlist.operators.soft import soft_top_value
from shortlist.operators.sparse_top import sparse_top

__all__ = ["expected_top_value", "noised_top_value", "soft_top_value", "sparse_top"]
