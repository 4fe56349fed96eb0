"""Labels by maximum likelihood: how good each user is and what each item is are estimated together.

Every user errs in a way of their own, the same on all items of a class; votes are independent given the truth. EM alternates
between the posterior of the labels and the parameters of the users (Dawid and Skene 1979). Two models of a user:

- ``"one-coin"``: right with one probability, and wrong by any of the other labels alike. Work and memory go with the number of
  votes, whatever the number of labels.
- ``"full"``: a confusion matrix for each user. Memory goes with users × labels², so it is for few labels.
"""

import warnings
from typing import Literal, Protocol, TypeAlias

from shortlist.checks import decimal, whole
from shortlist.data.votes.aggregation import Aggregation, Found, aggregation_of
from shortlist.data.votes.confusion import Confusion
from shortlist.data.votes.majority import check_theta
from shortlist.data.votes.one_coin import OneCoin
from shortlist.data.votes.table import Votes
from shortlist.errors import InputError, ShortlistWarning
from shortlist.tensors import Array
from shortlist.words import counted

LEAST_SMOOTHING, MOST_SMOOTHING = 1e-100, 1e9  # beyond, shares of it are no numbers of float64

Model: TypeAlias = Literal["one-coin", "full"]


class UserModel(Protocol):
    """Parameters of users and classes, and the posterior of the labels under them."""

    def maximise(self) -> None:
        """The best parameters for the posterior."""

    def expect(self) -> float:
        """The posterior under the parameters; the penalised log-likelihood of these parameters is returned."""

    def answer(self) -> tuple[Array, Array, Array]:
        """Label, posterior and whether it was tied, of each item with votes."""

    def accuracy(self) -> Array:
        """How often each user is right, (U,)."""


def dawid_skene(
    votes: Votes,
    *,
    model: Model = "one-coin",
    smoothing: float = 1.0,
    theta: object = 0,
    tolerance: float = 1e-6,
    most_rounds: int = 200,
) -> Aggregation:
    """The most probable label of each item under a model of its users' errors, valid where its posterior exceeds ``theta``.

    One coin: ``P(u votes l | truth k) = a_u`` if ``l = k``, else ``(1 - a_u) / (C - 1)``. Full: ``P(u votes l | truth k) =
    π_u[k, l]``. Classes have probabilities ``p_k``. EM from the shares of the votes maximises the log-likelihood plus the
    log-density of the prior that ``smoothing`` stands for, and that sum, ``objective``, rises with every round.

    Args:
        votes: the table.
        model: ``"one-coin"``, or ``"full"`` where users × labels² is at most 2**24 and items × labels at most 2**26.
        smoothing: pseudo-counts: each user has given so many right votes and as many wrong ones, spread over the labels (in
            the full model, for each true label), and each class has so many items beside those that were seen. 0 is the
            maximum likelihood of the paper, in the full model only: with one coin a user never contradicted would be
            infallible.
        theta: the posterior that is not enough.
        tolerance: EM ends when a round raises the objective by less than this for each item with votes.
        most_rounds: where to stop at the latest, with a warning.

    Returns:
        ``support`` and ``confidence`` are the posterior, ``weight`` is how often a user is right: ``a_u``, or
        ``Σ_k p_k π_u[k, k]``. One coin chooses among the labels that an item was given, though others have their share of the
        posterior.

    >>> votes = Votes.from_arrays(
    ...     user=["ann", "bob", "cy"] * 4, item=[1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4],
    ...     label=["ash", "ash", "elm", "elm", "elm", "ash", "ash", "ash", "ash", "elm", "elm", "ash"],
    ... )
    >>> labels = dawid_skene(votes)
    >>> labels.labels[labels.label].tolist()
    ['ash', 'elm', 'ash', 'elm']
    >>> labels.weight.round(2)
    array([0.8 , 0.8 , 0.33])

    A. P. Dawid, A. M. Skene, *Maximum likelihood estimation of observer error-rates using the EM algorithm*, 1979.
    """
    strength, enough = float(decimal("smoothing", smoothing)), float(decimal("tolerance", tolerance))
    if model not in ("one-coin", "full"):
        raise InputError(f"model: expected 'one-coin' or 'full', got {model!r}")
    if not (LEAST_SMOOTHING <= strength <= MOST_SMOOTHING or (strength == 0 and model == "full")):
        bounds = f"from {LEAST_SMOOTHING:g} to {MOST_SMOOTHING:g}"
        raise InputError(f"smoothing: expected a number above 0, {bounds} (or 0 in the full model), got {smoothing}")
    if enough <= 0:
        raise InputError(f"tolerance: expected a number above 0, got {tolerance}")
    bound = float(check_theta(theta))
    users: UserModel = OneCoin(votes, strength) if model == "one-coin" else Confusion(votes, strength)
    objective, converged = _climb(users, enough * len(votes.tally.voted), whole(1)("most_rounds", most_rounds))
    notes: tuple[str, ...] = ()
    if not converged:
        rounds = counted(len(objective), "round")
        notes = (f"EM has not settled after {rounds}: allow more with most_rounds, or a larger tolerance",)
        warnings.warn(notes[0], ShortlistWarning, stacklevel=2)
    label, posterior, tied = users.answer()
    return aggregation_of(
        votes,
        Found(label, posterior > bound, posterior, posterior, tied),
        weight=users.accuracy(),
        rounds=len(objective),
        converged=converged,
        notes=notes,
        objective=tuple(objective),
    )


def _climb(users: UserModel, enough: float, most_rounds: int) -> tuple[list[float], bool]:
    """EM until a round gains less than enough: the objective of each round, and whether it came to that."""
    objective: list[float] = []
    while len(objective) < most_rounds:
        users.maximise()
        objective.append(users.expect())
        if len(objective) > 1 and objective[-1] - objective[-2] < enough:
            return objective, True
    return objective, False
