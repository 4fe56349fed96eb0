"""What sets of k labels, and of k labels on average, are worth on test rows: the numbers that most claims are about."""

from collections.abc import Sequence

from torch import Tensor

from shortlist.claims.experiment import Numbers
from shortlist.links import parse_link
from shortlist.metrics.accuracy import shot_groups
from shortlist.predictions import Predictions
from shortlist.sets import average_k, top_k
from shortlist.tensors import Probs, Sets, one_hot


def set_numbers(calibration: Predictions, test: Predictions, posterior: Tensor | None, sizes: Sequence[int]) -> Numbers:
    """Accuracies in percent, by name, for each k of ``sizes``.

    ``top-k``: sets of the k largest. ``average-k``: sets above one threshold, fitted on ``calibration`` without labels, by the
    classifier's own link with its temperature; ``average-k softmax`` by the softmax of the scores, as the papers do;
    ``average-k prior`` by probability over prior. Before each, ``macro-`` is the mean over classes; behind it, ``few``,
    ``medium`` and ``many`` are means over the classes with so many training rows, ``size`` is the mean number of labels and
    ``singles`` the share of sets with one label.

    Args:
        calibration: rows that thresholds are fitted on.
        test: rows that are measured.
        posterior: the true class probabilities of the test rows: accuracies are then those expected under them, and ``best``
            behind a name gives what they reach; None if they are not known.
        sizes: the k.
    """
    assert test.target is not None
    truth = one_hot(test.target, test.scores.shape[1]).double() if posterior is None else posterior.double()
    judge = SetJudge(truth, test.train_counts)
    known, new = calibration.probs(), test.probs()
    plain_known, plain_new = (part.with_link(parse_link("softmax")).probs() for part in (calibration, test))
    counts = test.train_counts
    prior = None if counts is None else (counts.double() + (counts == 0)) / (counts + (counts == 0)).sum()
    numbers: Numbers = {}
    for k in sizes:
        numbers |= judge.numbers(f"top-{k}", top_k(k)(new))
        numbers |= judge.numbers(f"average-{k}", average_k(k).fit(known)(new))
        numbers |= judge.numbers(f"average-{k} softmax", average_k(k).fit(plain_known)(plain_new))
        if prior is not None:
            numbers |= judge.numbers(f"average-{k} prior", average_k(k, prior).fit(known)(new))
        if posterior is not None:
            numbers |= _best(judge, posterior, k)
    return numbers


class SetJudge:
    """Accuracies of sets of the same rows.

    Args:
        truth: how much each label of each row counts: 1 for the label, or its true probability, float64 (N, C).
        counts: training rows of each class.
    """

    def __init__(self, truth: Tensor, counts: Tensor | None):
        self.truth, self.mass = truth, truth.sum(0)
        self.groups = {} if counts is None else shot_groups(counts)

    def numbers(self, name: str, sets: Sets) -> Numbers:
        """Accuracies, mean size and share of single labels of these sets, by names that begin with this one."""
        found = self._accuracies(name, sets)
        size = sets.sum(1)
        return found | {
            f"{name} size": float(size.double().mean()),
            f"{name} singles": 100 * float((size == 1).double().mean()),
        }

    def _accuracies(self, name: str, sets: Sets) -> Numbers:
        hits = (sets * self.truth).sum(0)
        recall = 100 * hits / self.mass
        found = {name: 100 * float(hits.sum() / self.mass.sum()), f"macro-{name}": float(recall.nanmean())}
        for group, chosen in self.groups.items():
            if bool((chosen & (self.mass > 0)).any()):
                found[f"macro-{name} {group}"] = float(recall[chosen].nanmean())
        return found


def _best(judge: SetJudge, posterior: Probs, k: int) -> Numbers:
    """What the sets of the true probabilities reach."""
    sets = {f"top-{k}": top_k(k)(posterior), f"average-{k}": average_k(k).fit(posterior)(posterior)}
    return {f"{name} best": 100 * float((found * judge.truth).sum() / judge.mass.sum()) for name, found in sets.items()}
