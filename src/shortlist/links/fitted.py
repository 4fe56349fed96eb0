"""What fitted links share: a base link that is applied first, and a fit on labelled rows."""

from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from shortlist.checks import check_rows, flag, optional
from shortlist.class_names import check_same_names, column_names, labels_by_name
from shortlist.errors import InputError
from shortlist.links.based import Base, BasedLink
from shortlist.links.fixed import Identity, Sigmoid, Softmax, softmax_log_odds
from shortlist.links.link import Link
from shortlist.links.ties import tied_odds
from shortlist.tensors import Scores, Target, as_target, as_tensor, is_single_label

# Stands for the log-odds of probabilities 0 and 1: just beyond those of the smallest positive float32, 2^-149. It is the same
# for float64, so that a row has the same probabilities in either precision.
LARGEST_ODDS = 103.97


class FittedLink(BasedLink):
    """A map fitted on top of a base link: by default softmax for one label per row, sigmoid for several.

    The fit is deterministic, in float64, and converges or raises :class:`~shortlist.errors.NotConvergedError`.

    Attributes:
        by_steps: whether its map has steps, so that rows with the same probability of a label have to have the same log-odds,
            whatever the row sums to.
    """

    by_steps: ClassVar[bool] = False

    def __init__(self, base: Base = None, single: bool | None = None):
        super().__init__(base)
        single = optional(flag)("single", single)
        # A base that was given stays; the default is chosen anew at each fit.
        self.chosen = self.base is not None and not (single is not None and isinstance(self.base, _default(single)))
        self.fitted_names: list[str] | None = None  # of the columns that it was fitted on; not part of files
        self.single = single  # one label per row: the probabilities of a row then sum to one

    def fit(self, scores: Scores | np.ndarray[Any, Any], target: Target | np.ndarray[Any, Any]) -> Self:
        """Fit the map to labelled rows; if that fails, the link stays as it was.

        Args:
            scores: finite numbers (N, C); probabilities if the base is the identity.
            target: int64 (N,) or bool (N, C).
        """
        target = labels_by_name(target, scores)
        check_same_names(scores, target)
        names = column_names(scores)
        scores, target = as_tensor(scores, "scores"), as_target(target)
        check_rows(scores, target, kind="finite", name="scores")
        if len(scores) == 0:
            raise InputError(f"scores: expected labelled rows to fit {self.kind} on, got none")
        with self.whole_or_not(), torch.no_grad():
            self._begin(is_single_label(target))
            self._fitted_base().check_names(names)
            self._fit(self._fitted_base()._checked(scores), target)
            self.fitted_names = names
        return self

    def _begin(self, single: bool) -> None:
        """Note whether each row has one label, and choose the base by it if none was given."""
        self.single = single
        if not self.chosen:
            self.base = _default(single)()

    def _fit(self, scores: Scores, target: Target) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not implement _fit")

    def config(self) -> dict[str, Any]:
        """As declared by :class:`BasedLink`, and whether each row has one label."""
        return {**super().config(), "single": self.single}

    @property
    def exclusive(self) -> bool:
        """Whether it was fitted on one label per row: the probabilities of a row then sum to one."""
        return bool(self.single)

    @property
    def records_fit(self) -> bool:
        """Whether the number of labels per row is known, which only a fit determines."""
        return self.single is not None

    def _odds_of_base(self, scores: Scores) -> Tensor:
        """The log-odds of the base, infinite ones replaced by the largest log-odds of a probability."""
        base = self._fitted_base()
        if self.single and isinstance(base, Identity):
            # From all probabilities of the row: one that was rounded to 1 says less about itself than the others do.
            probs = base._probs(scores.double())
            logs = probs.log()
            odds = softmax_log_odds(logs.clamp(min=-LARGEST_ODDS)).clamp(-LARGEST_ODDS, LARGEST_ODDS)
            odds = tied_odds(probs, odds) if self.by_steps else odds
            # No probability is none of the row, whatever the row sums to; unless it has nothing else.
            none = (logs < -LARGEST_ODDS) & (logs.amax(1, keepdim=True) > -LARGEST_ODDS)
            return torch.where(none, -LARGEST_ODDS, odds).to(scores.dtype)
        # In float64, so that rounding does not decide what is certain; nothing is below what stands for 0.
        odds = base._log_odds(scores.double()).clamp(min=-LARGEST_ODDS) if base.reaches_zero else base._log_odds(scores)
        return torch.nan_to_num(odds, nan=torch.nan, posinf=LARGEST_ODDS, neginf=-LARGEST_ODDS).to(scores.dtype)

    def _scores_of_base(self, scores: Scores) -> Tensor:
        """The scores that are scaled: those of a softmax as they are, log p of given probabilities, log-odds otherwise."""
        base = self._fitted_base()
        if isinstance(base, Softmax):
            return scores
        if self.single and isinstance(base, Identity):
            return base._probs(scores).log().clamp(min=-LARGEST_ODDS)  # log 0
        return self._odds_of_base(scores)


def _default(single: bool) -> type[Link]:
    return Softmax if single else Sigmoid
