"""What follows for whoever chooses a method: a few sentences, each with the verdicts that it rests on.

A sentence is shown only while all of these verdicts are what the results say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shortlist.claims.claim import Decision, Verdict


@dataclass(frozen=True)
class Reason:
    """A verdict that a conclusion rests on.

    Args:
        claim: id of the claim.
        decision: what the verdict has to be.
        experiments: in which experiments; in all of the claim's if none is given.
    """

    claim: str
    decision: Decision
    experiments: tuple[str, ...] = ()

    def stands(self, verdicts: Sequence[Verdict]) -> bool:
        """Whether these verdicts of the claim are so."""
        asked = [one for one in verdicts if one.experiment in self.experiments or not self.experiments]
        return all(one.n and one.decision == self.decision for one in asked)


@dataclass(frozen=True)
class Conclusion:
    """A sentence of advice, in Markdown, and the verdicts that it rests on."""

    sentence: str
    reasons: tuple[Reason, ...]

    def stands(self, verdicts: Mapping[str, Sequence[Verdict]]) -> bool:
        """Whether all reasons stand, by the verdicts of each claim."""
        return all(reason.stands(verdicts[reason.claim]) for reason in self.reasons)

    def markdown(self) -> str:
        """The sentence, with a link to each claim."""
        links = ", ".join(f"[{reason.claim}](#{reason.claim})" for reason in self.reasons)
        return f"- {self.sentence} ({links})"


CONCLUSIONS = (
    Conclusion(
        "**Start with cross-entropy.** In trainings of the lengths tested here, the noised hinge and the two-head loss were "
        "behind it on CIFAR-100 and not ahead of it on Flora. A longer one may reverse this: in [100 epochs of a "
        "ResNet-18](choosing.md#one-label-a-row) the two-head loss was a point ahead.",
        (Reason("garcin-2022-clean", "fails"), Reason("garcin-2022-noise", "fails"), Reason("garcin-2023-two-head", "fails")),
    ),
    Conclusion(
        "**Ask for k labels on average, not for exactly k.** Sets of the same classifier then hold the label one to four "
        "points more often.",
        (Reason("garcin-thesis-average-k", "holds"),),
    ),
    Conclusion(
        "**On a long tail change the rule, not the loss.** Labels by probability over prior (`average-k:K:prior`) find classes "
        "with few examples far more often than the two-head loss does by one threshold, whatever was trained.",
        (Reason("garcin-2023-prior", "fails"), Reason("beyond-two-head-prior", "holds")),
    ),
    Conclusion(
        "**Noisy labels are no reason for the noised hinge.** Cross-entropy with averaged weights (`ema`) is ahead of it.",
        (Reason("beyond-average-weights", "holds"),),
    ),
    Conclusion(
        "**A top-k hinge in a deep network needs ε of at least 0.1 and several draws.**",
        (
            Reason("garcin-2022-tiny-epsilon", "holds"),
            Reason("garcin-2022-small-epsilon", "fails"),
            Reason("garcin-2022-draws", "fails", ("cifar100-draws",)),
        ),
    ),
    Conclusion(
        "**Rows without any of the labels: give them a class of their own.** A softmax with one more class tells them apart "
        "better than the quasibinary classifier, and is as accurate on the others, to one point.",
        (Reason("beyond-background", "holds"),),
    ),
    Conclusion(
        "**Several labels a row: binary cross-entropy, with a link fitted afterwards.** SPA retrieves better than ASY, but "
        "ranks no better than binary cross-entropy, and on most tables a fitted link calibrates that better than SPA's loss "
        "does.",
        (
            Reason("cheng-retrieval", "holds"),
            Reason("cheng-over-bce", "fails", ("mulan-yeast", "mulan-scene", "mulan-emotions")),
            Reason("cheng-fitted", "fails", ("flora-quadrats", "mulan-yeast", "mulan-scene", "mulan-birds")),
        ),
    ),
    Conclusion(
        "**Labels from votes: Dawid and Skene's model.** Weights by activity help only where those who vote more are better.",
        (
            Reason("garcin-thesis-votes-dawid-skene", "fails"),
            Reason("garcin-thesis-votes", "holds"),
            Reason("garcin-thesis-votes-unrelated", "fails"),
        ),
    ),
    Conclusion(
        "**Conformal sets cover as often as asked,** but with one threshold not the classes with few examples; thresholds for "
        "each class, or probability over prior, do that with larger sets.",
        (
            Reason("garcin-thesis-conformal", "holds"),
            Reason("garcin-thesis-conformal-tail", "holds"),
            Reason("garcin-thesis-conformal-size", "holds"),
        ),
    ),
)
