"""For scikit-learn: a classifier that answers with sets, and scorers for its sets."""

from shortlist.sklearn.scorers import coverage_scorer, coverage_size_scorer, size_scorer
from shortlist.sklearn.set_classifier import SetClassifier

__all__ = ["SetClassifier", "coverage_scorer", "coverage_size_scorer", "size_scorer"]
