"""On several processes a loss that couples the batch is that of the global batch, with gradients for averaging."""

import functools
import json

import numpy as np
import pytest
import torch

from shortlist.data import Problem
from shortlist.errors import InputError
from shortlist.losses import (
    CrossEntropyLoss,
    PenalisedLoss,
    UniformOutlierLoss,
    average_k_loss,
    conformal_training_loss,
    expected_positive_loss,
    quasibinary_loss,
    role_loss,
    two_way_loss,
)
from shortlist.processes import (
    asked_of_first,
    decided_by_first,
    from_all,
    gathered,
    processes,
    same_everywhere,
    total,
    total_logsumexp,
)
from tests import warm

CLASSES = 5
SPLITS = [(2, 5), (6, 1), (3, 3), (0, 4), (4, 0), (0, 0)]  # rows of the first and of the second process
SHAPES = [(), (3,), (2, 3)]


class Batch:
    """A global batch: scores, a second matrix of scores, labels and marks."""

    def __init__(self, rows, seed, *, tied=False):
        random = np.random.default_rng(seed)
        self.scores = torch.from_numpy(2 * random.standard_normal((rows, CLASSES)))
        other = 2 * random.standard_normal((rows, CLASSES))
        # The same four numbers in each row, and the same one everywhere: probabilities tie across rows and processes.
        other = np.where(np.arange(rows)[:, None] % 3 == 0, 0.0, [1.0, 0.0, 1.0, 0.0, -1.0]) if tied else other
        self.other = torch.from_numpy(other)
        self.target = torch.from_numpy(random.integers(CLASSES, size=rows))
        # Of four rows in a row the third is ignored, so that some processes have none of them.
        self.partly = torch.where(torch.arange(rows) % 4 == 2, -100, self.target)
        # The last class is never marked, the one before it in every row, and some rows are marked there alone.
        self.marks = torch.from_numpy(random.random((rows, CLASSES)) < [0.3, 0.3, 0.3, 1, 0])

    def part(self, rows):
        """Some of the rows, as leaves."""
        one = object.__new__(Batch)
        one.scores, one.other = (x[rows].clone().requires_grad_() for x in (self.scores, self.other))
        one.target, one.partly, one.marks = self.target[rows], self.partly[rows], self.marks[rows]
        return one


def average_k(k):
    return lambda b: average_k_loss(b.scores, b.target, proposal_scores=b.other, k=k, alpha=0.7)


OUTLIERS = PenalisedLoss(CrossEntropyLoss(), UniformOutlierLoss(), 0.6)
LOSSES = {
    **{f"average-k {k}": average_k(k) for k in (1, 1.3, 2.5, 4, CLASSES)},
    "average-k, rows ignored": lambda b: average_k_loss(b.scores, b.partly, proposal_scores=b.other, k=2.5, alpha=0.7),
    "expected positive, rows ignored": lambda b: expected_positive_loss(b.scores, b.partly, k=2, beta=0.3),
    "role, rows ignored": lambda b: role_loss(b.scores, b.partly, estimates=b.other, k=2, weight=0.4),
    "expected positive": lambda b: expected_positive_loss(b.scores, b.target, k=2, beta=0.3),
    "role": lambda b: role_loss(b.scores, b.target, estimates=b.other, k=2, weight=0.4),
    "conformal training": lambda b: conformal_training_loss(b.scores, b.target, alpha=0.2, temperature=0.5),
    "conformal training, rows ignored": lambda b: conformal_training_loss(b.scores, b.partly, alpha=0.4, spread=0.0),
    "two-way": lambda b: two_way_loss(b.scores, b.marks),
    "two-way, one label": lambda b: two_way_loss(b.scores, b.target),
    "quasibinary": lambda b: quasibinary_loss(b.scores, b.marks),
    "quasibinary, one label": lambda b: quasibinary_loss(b.scores, b.target),
    "quasibinary, no label": lambda b: quasibinary_loss(b.scores, b.marks & False),
    "quasibinary, given normaliser": lambda b: quasibinary_loss(b.scores, b.marks & False, log_normalizer=-0.3),
    "outliers": lambda b: OUTLIERS(b.scores, b.marks & (b.target < 3)[:, None]),
    "outliers alone": lambda b: OUTLIERS(b.scores, b.marks & False),
    "sum": lambda b: (total(b.scores.sin().sum(0)) ** 2).sum() + total(b.other.sum()),
    "logsumexp": lambda b: total_logsumexp(b.scores).nan_to_num(neginf=0.0).square().sum(),
    "logsumexp of some": lambda b: total_logsumexp(b.scores.masked_fill(~b.marks, -torch.inf)).exp().square().sum(),
    "logsumexp far away": lambda b: total_logsumexp(b.scores + 1e4).nan_to_num(neginf=0.0).sum(),
}
KINDS = ("scores", "other", "again")
CASES = [(split, tied) for split in SPLITS for tied in (False, True)]


def results(batch):
    """Value, gradients and the Hessian times a direction of every loss, as arrays by name."""
    found = {}
    for name, loss in LOSSES.items():
        value = loss(batch)
        gradients = torch.autograd.grad(value, [batch.scores, batch.other], allow_unused=True, create_graph=True)
        found[f"{name}/value"] = value.detach().numpy()
        again = torch.autograd.grad((gradients[0] * batch.other.detach()).sum(), batch.scores, allow_unused=True)
        for part, gradient in zip(KINDS, (*gradients, *again), strict=True):
            found[f"{name}/{part}"] = np.zeros(batch.scores.shape) if gradient is None else gradient.detach().numpy()
    return found


@functools.cache
def on_one_process(n):
    split, tied = CASES[n]
    return results(Batch(sum(split), n, tied=tied).part(slice(None)))


def stacked(rank):
    return {f"gathered/{n}": gathered(torch.full(shape, rank + n / 10)).numpy() for n, shape in enumerate(SHAPES)}


SHARES = [[], ["oak", "elm", "fir"]]  # of the first and of the second process


def told(rank):
    """What the processes tell each other besides tensors, as JSON."""
    return {
        "unequal": from_all(SHARES[rank]),
        "long": [len(text) for text in from_all("x" * 10 ** (1 + 5 * rank))],
        "problems": [[str(one) for one in part] for part in from_all([Problem("odd", "a.jpg", f"process {rank}")] * rank)],
        "same": [same_everywhere("one"), same_everywhere(f"process {rank}")],
        "first": decided_by_first([rank == 0, rank == 1]),
        "asked": asked_of_first(lambda: f"process {rank}"),
        "refused": refusal(rank),
    }


def refusal(rank):
    """The error of the first process, in each."""

    def refuse():
        raise InputError(f"process {rank} refuses")

    with pytest.raises(InputError) as refused:
        asked_of_first(refuse)
    return str(refused.value)


def _one_process(rank, store, out):
    with warm.one_of_two(rank, store):
        found = stacked(rank)
        for n, (split, tied) in enumerate(CASES):
            rows = slice(0, split[0]) if rank == 0 else slice(split[0], sum(split))
            part = results(Batch(sum(split), n, tied=tied).part(rows))
            found |= {f"{n}/{name}": value for name, value in part.items()}
        np.savez(f"{out}{rank}.npz", told=json.dumps(told(rank)), **found)


@pytest.fixture(scope="module")
def of_each_process(tmp_path_factory):
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("processes")
    warm.two_processes(_one_process, str(folder / "store"), str(folder / "out"))
    return [dict(np.load(folder / f"out{rank}.npz")) for rank in range(2)]


@pytest.mark.parametrize("n", range(len(CASES)), ids=[f"{a}+{b} rows{', tied' * t}" for (a, b), t in CASES])
@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradients_are_those_of_the_global_batch(of_each_process, name, n):
    expected = on_one_process(n)
    parts = [{kind: found[f"{n}/{name}/{kind}"] for kind in ("value", *KINDS)} for found in of_each_process]
    for part in parts:
        np.testing.assert_allclose(part["value"], expected[f"{name}/value"], rtol=1e-9, atol=1e-12)
    for kind in KINDS:
        together = np.concatenate([part[kind] for part in parts])
        np.testing.assert_allclose(together, 2 * expected[f"{name}/{kind}"], rtol=1e-9, atol=1e-12)


def test_averaging_over_processes_gives_the_gradient_of_the_global_loss_for_shared_weights(of_each_process):
    """What data-parallel training does with them: the chain rule on each process, then the mean."""
    n = 0
    assert CASES[n][0] == (2, 5)
    features = np.random.default_rng(9).standard_normal((7, 3))
    for name in ("average-k 2.5", "two-way", "quasibinary"):
        own = [
            features[:2].T @ of_each_process[0][f"{n}/{name}/scores"],
            features[2:].T @ of_each_process[1][f"{n}/{name}/scores"],
        ]
        expected = features.T @ on_one_process(n)[f"{name}/scores"]
        np.testing.assert_allclose(np.mean(own, axis=0), expected, rtol=1e-9, atol=1e-12)


def test_tensors_of_all_processes_are_stacked_in_their_order(of_each_process):
    for found in of_each_process:
        for n, shape in enumerate(SHAPES):
            expected = np.stack([np.full(shape, rank + n / 10, np.float32) for rank in range(2)])
            np.testing.assert_array_equal(found[f"gathered/{n}"], expected)


def test_values_of_all_processes_come_in_their_order_whatever_their_sizes(of_each_process):
    for found in of_each_process:
        assert json.loads(str(found["told"])) == {
            "unequal": SHARES,
            "long": [10, 10**6],
            "problems": [[], ["a.jpg: process 1"]],
            "same": [True, False],
            "first": [True, False],
            "asked": "process 0",
            "refused": "process 0 refuses",
        }


def test_one_process_is_its_own_total():
    values = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert processes() == 1
    assert total(values) is values
    assert torch.equal(gathered(values), values[None])
    assert not gathered(values).requires_grad
    assert from_all(["oak"]) == [["oak"]]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_logsumexp_is_that_of_torch(dim):
    values = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(total_logsumexp(values, dim), values.logsumexp(dim), rtol=1e-13, atol=1e-13)
    assert torch.autograd.gradcheck(lambda v: total_logsumexp(v, dim), values)


def test_logsumexp_of_nothing_is_minus_infinity_with_gradient_0():
    assert total_logsumexp(torch.zeros(0, 3)).tolist() == [-torch.inf] * 3
    assert total_logsumexp(torch.zeros(3, 0), 1).tolist() == [-torch.inf] * 3
    values = torch.tensor([[0.0, -torch.inf], [1e4, -torch.inf], [-1e4, -torch.inf]], requires_grad=True)
    found = total_logsumexp(values)
    assert found.tolist() == [1e4, -torch.inf]
    (gradient,) = torch.autograd.grad(found[0], values)
    assert gradient.tolist() == [[0, 0], [1, 0], [0, 0]]
    (gradient,) = torch.autograd.grad(total_logsumexp(values)[1].exp(), values)
    assert gradient.tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("n", range(len(CASES)))
@pytest.mark.parametrize("name", ["average-k 2.5", "expected positive", "role"])
def test_ignored_rows_are_left_out_of_the_global_batch(name, n):
    """On one process, which the test above compares with two."""
    split, tied = CASES[n]
    batch = Batch(sum(split), n, tied=tied)
    kept = batch.partly >= 0
    found, expected = batch.part(slice(None)), batch.part(kept)
    ignoring = LOSSES[{"average-k 2.5": "average-k"}.get(name, name) + ", rows ignored"](found)
    ignoring.backward()
    others = LOSSES[name](expected)
    others.backward()
    torch.testing.assert_close(ignoring, others)
    for part, alone in ((found.scores, expected.scores), (found.other, expected.other)):
        if part.grad is not None:
            torch.testing.assert_close(part.grad[kept], alone.grad)
            assert not part.grad[~kept].any()
