"""Links: modules that turn scores into probabilities.

============== ==================================================== =========================================
name           probabilities of scores v                            for
============== ==================================================== =========================================
identity       v                                                    scores that are probabilities
softmax        exp(v) / Σ exp(v)                                    cross-entropy, one label per row
sigmoid        1 / (1 + exp(-v))                                    binary cross-entropy, several labels
assume-        sigmoid of v - log(C - 1)                            assume-negative loss
negative
spa            the inverse of the SPA loss (Cheng)                  strictly proper asymmetric loss
focal-recovery φ(σ(v))                                              asymmetric focal loss, ASY
softmax-focal- softmax, recovered from the focal loss's minimiser   focal loss, one label per row
recovery
ldam           softmax, recovered from LDAM's minimiser             label-distribution-aware margins
sparse-top     projection onto {0 ≤ p ≤ 1, Σ p = k}                 sparse-top loss, sparsemax
quasibinary    exp(v) / running normaliser                          zero, one or many labels (Liao)
temperature    softmax or sigmoid of v / T, T fitted                recalibrating any of the above
platt          sigmoid of slope·log-odds + intercept, per label     the same
beta           the same of log p and log(1 - p) separately          the same
vector-scaling softmax of weight·log p + intercept, per label       one label per row
dirichlet      softmax of W log p + intercept                       the same
isotonic       non-decreasing map of the log-odds, per label        the same, with many rows
venn-abers     isotonic with the row itself, per label              the same, with a guarantee
reweighted     w · p of another link, divided by the row's sum      other shares of the classes
============== ==================================================== =========================================
"""

from shortlist.links.beta import Beta
from shortlist.links.choice import Candidate, LinkChoice, choose_link
from shortlist.links.dirichlet import Dirichlet, VectorScaling
from shortlist.links.fixed import AssumeNegative, Identity, Sigmoid, Softmax
from shortlist.links.link import Link, link_from_config
from shortlist.links.per_label import Isotonic, Platt
from shortlist.links.projection import SparseTop
from shortlist.links.quasibinary import Quasibinary
from shortlist.links.recovery import LDAM, SPA, FocalRecovery, SoftmaxFocalRecovery
from shortlist.links.reweighted import Reweighted
from shortlist.links.temperature import Temperature
from shortlist.links.text import parse_link
from shortlist.links.venn_abers import VennAbers

__all__ = [
    "LDAM",
    "SPA",
    "AssumeNegative",
    "Beta",
    "Candidate",
    "Dirichlet",
    "FocalRecovery",
    "Identity",
    "Isotonic",
    "Link",
    "LinkChoice",
    "Platt",
    "Quasibinary",
    "Reweighted",
    "Sigmoid",
    "Softmax",
    "SoftmaxFocalRecovery",
    "SparseTop",
    "Temperature",
    "VectorScaling",
    "VennAbers",
    "choose_link",
    "link_from_config",
    "parse_link",
]
