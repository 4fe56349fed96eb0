"""A loss with a state of its own trains, resumes and is told of its steps without a line in training that knows it."""

import pytest
import torch

from shortlist.links import Link, Quasibinary, Softmax
from shortlist.losses import (
    LabelPairPenalty,
    Loss,
    LossState,
    PenalisedLoss,
    QuasibinaryLoss,
    cross_entropy_loss,
    label_pair_penalty,
    quasibinary_loss,
)
from shortlist.methods import Method, menu, register_method
from tests.training.small import CLASSES, run, same, weights


class CentredLoss(Loss):
    """Cross-entropy of scores less their running mean over the training rows seen, which it keeps."""

    def __init__(self):
        super().__init__()
        self.states = []

    def forward(self, scores, target, *, centre):
        return cross_entropy_loss(scores - centre, target)

    def link(self) -> Link:
        return Softmax()

    def training_state(self, rows, classes, seed):
        self.states.append(CentredState(self, rows, classes, seed))
        return self.states[-1]


class CentredState(LossState):
    def __init__(self, loss, rows, classes, seed):
        super().__init__(loss)
        self.register_buffer("centre", torch.rand(classes, generator=torch.Generator().manual_seed(seed)))
        self.register_buffer("seen", torch.zeros(rows, dtype=torch.int64))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, output, target, rows):
        self.seen[rows] += 1
        self.centre = 0.9 * self.centre + 0.1 * output.detach().mean(0)
        return self.loss(output, target, centre=self.centre)

    def stepped(self, rate):
        self.steps += 1


@pytest.fixture
def loss(monkeypatch):
    made = CentredLoss()
    monkeypatch.setattr(menu, "METHODS", dict(menu.METHODS))
    register_method(Method("centred", "a toy", "one", lambda: made))
    return made


class Cut(BaseException):
    """Nothing catches it."""


def test_a_loss_with_a_state_of_its_own_trains_and_resumes(tmp_path, loss, monkeypatch):
    whole = run(tmp_path / "whole", method="centred", epochs=3)
    (state,) = loss.states
    assert state.steps == 15
    assert state.seen.tolist() == [3] * 60
    assert state.centre.shape == (CLASSES,)

    stepped = CentredState.stepped

    def cut(self, rate):
        if self.steps == 8:
            raise Cut
        stepped(self, rate)

    monkeypatch.setattr(CentredState, "stepped", cut)
    with pytest.raises(Cut):
        run(tmp_path / "cut", method="centred", epochs=3)
    monkeypatch.setattr(CentredState, "stepped", stepped)
    again = run(tmp_path / "cut", method="centred", epochs=3, resume=True)
    assert same(weights(whole), weights(again))
    assert torch.equal(loss.states[-1].centre, state.centre)
    assert torch.equal(loss.states[-1].seen, state.seen)


def test_a_penalised_loss_keeps_the_state_of_its_loss():
    random = torch.Generator().manual_seed(0)
    scores, marks = torch.randn(6, 4, generator=random), torch.rand(6, 4, generator=random) < 0.4
    state = PenalisedLoss(QuasibinaryLoss(), LabelPairPenalty(), 0.5, link=Quasibinary()).training_state(6, 4, 0)
    nothing = state(scores, torch.zeros_like(marks), torch.arange(6))
    assert nothing == 0  # there is no normaliser yet, and no label to compare with
    found = state(scores, marks, torch.arange(6))
    expected = quasibinary_loss(scores, marks) + 0.5 * label_pair_penalty(state.link.log_odds(scores).clamp(-100, 100), marks)
    torch.testing.assert_close(found, expected)
    again = PenalisedLoss(QuasibinaryLoss(), LabelPairPenalty(), 0.5, link=Quasibinary()).training_state(6, 4, 0)
    again.restore({name: tensor.clone() for name, tensor in state.tensors().items()})
    assert torch.equal(again.link.log_normalizer, state.link.log_normalizer)
    assert torch.equal(again(scores, marks, torch.arange(6)), state(scores, marks, torch.arange(6)))


def test_dropped_steps_reach_the_state_of_a_penalised_loss():
    told = []

    class Telling(LossState):
        def stepped(self, rate):
            told.append(rate)

        def skipped(self):
            told.append("skipped")

    class Toy(CentredLoss):
        def training_state(self, rows, classes, seed):
            return Telling(self)

    state = PenalisedLoss(Toy(), LabelPairPenalty()).training_state(6, 4, 0)
    state.stepped(0.1)
    state.skipped()
    assert told == [0.1, "skipped"]
