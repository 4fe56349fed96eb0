"""A confusion matrix for each user: how often they vote l where the truth is k."""

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp

from shortlist.data.votes.table import Votes
from shortlist.errors import InputError
from shortlist.tensors import Array

MOST_CELLS = 2**24  # users × labels², 128 MB
MOST_POSTERIOR = 2**26  # items × labels, 512 MB


class Confusion:
    """The full model: ``matrices`` (U·C, C), row (u, said) and column truth, ``classes`` (C,), ``posterior`` (J, C).

    Votes are a sparse matrix of ones, items by (user, said), so both halves of EM are a product with it.
    """

    def __init__(self, votes: Votes, smoothing: float):
        users, labels, tally = len(votes.users), len(votes.labels), votes.tally
        _check_size(users, labels, len(tally.voted))
        self.users, self.labels = users, labels
        said = np.repeat(tally.pair_label, tally.pair_votes).astype(np.int64)
        votes_on = tally.by_item(tally.pair_votes)
        starts = np.append(0, np.cumsum(votes_on))
        columns = tally.user.astype(np.int64) * labels + said
        self.said = csr_array((np.ones(len(said)), columns, starts), shape=(len(tally.voted), users * labels))
        row = np.repeat(np.arange(len(tally.voted)), tally.item_pairs)
        self.posterior = np.zeros((len(tally.voted), labels))
        self.posterior[row, tally.pair_label] = tally.pair_votes / np.repeat(votes_on, tally.item_pairs)
        self.smoothing = smoothing
        self.pseudo = _pseudo_counts(labels, smoothing)

    def maximise(self) -> None:
        """Confusions and classes from the items as they probably are; what was never seen is taken as uniform."""
        counts = (self.said.T @ self.posterior).reshape(self.users, self.labels, self.labels) + self.pseudo
        seen = counts.sum(axis=1, keepdims=True)
        matrices = np.divide(counts, seen, out=np.full_like(counts, 1 / self.labels), where=seen > 0)
        self.matrices = matrices.reshape(-1, self.labels)
        classes = self.posterior.sum(axis=0) + self.smoothing
        self.classes = classes / classes.sum()

    def expect(self) -> float:
        """The posterior of all labels of every item with votes."""
        with np.errstate(divide="ignore"):  # without smoothing, what never happened has probability 0
            logs, log_class = np.log(self.matrices), np.log(self.classes)
        joint = log_class + self.said @ logs
        total = logsumexp(joint, axis=1, keepdims=True)
        self.posterior = np.exp(joint - total)
        if not self.smoothing:
            return float(total.sum())
        prior = (logs.reshape(self.users, self.labels, self.labels) * self.pseudo).sum()
        return float(total.sum() + prior + self.smoothing * log_class.sum())

    def answer(self) -> tuple[Array, Array, Array]:
        """The most probable of all labels, the lower one where several tie."""
        best = self.posterior.argmax(axis=1)
        most = self.posterior[np.arange(len(best)), best]
        return best, most, (self.posterior == most[:, None]).sum(axis=1) > 1

    def accuracy(self) -> Array:
        """``Σ_k p_k π_u[k, k]``."""
        diagonal = self.matrices.reshape(self.users, self.labels, self.labels).diagonal(axis1=1, axis2=2)
        right: Array = diagonal @ self.classes
        return right


def _pseudo_counts(labels: int, smoothing: float) -> Array:
    """As many right votes as wrong ones for each true label, the wrong ones spread over the other labels."""
    pseudo = np.full((labels, labels), smoothing / max(1, labels - 1))
    np.fill_diagonal(pseudo, smoothing)
    return pseudo


def _check_size(users: int, labels: int, items: int) -> None:
    if users * labels**2 > MOST_CELLS or items * labels > MOST_POSTERIOR:
        raise InputError(
            f"model: expected at most {MOST_CELLS:,} cells of confusion (users × labels²) and {MOST_POSTERIOR:,} of posterior "
            f"(items × labels) for 'full', got {users * labels**2:,} and {items * labels:,}: use 'one-coin'"
        )
