"""Classes that lose their label: how many, which, and what becomes of the rows."""

import pytest
import torch

from shortlist.data.dataset import Dataset, Split
from shortlist.data.open_set import unlabel
from shortlist.errors import InputError

SUPERCLASSES = ["a", "b", "a", "b", "a", "b", "b"]


def garden(target=None, posterior=None):
    target = torch.tensor([0, 1, 2, 3, 4, 5, 6, 0, 6]) if target is None else target
    rows = len(target)
    split = Split(torch.arange(rows)[:, None].float(), target, [str(row) for row in range(rows)], posterior=posterior)
    return Dataset("garden", [f"class {label}" for label in range(7)], {"train": split, "val": split}, SUPERCLASSES)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_each_superclass_loses_as_many(seed, lost):
    data = unlabel(garden(), per_superclass=lost, seed=seed)
    assert [list(data.superclasses).count(name) for name in "ab"] == [3 - lost, 4 - lost]
    numbers = [int(name.split()[1]) for name in data.classes]
    assert numbers == sorted(numbers)
    assert list(data.superclasses) == [SUPERCLASSES[number] for number in numbers]
    for split in data.splits.values():
        for row, label in enumerate((0, 1, 2, 3, 4, 5, 6, 0, 6)):
            assert split.target[row].nonzero().flatten().tolist() == [place for place, n in enumerate(numbers) if n == label]


def test_the_seed_chooses():
    chosen = {tuple(unlabel(garden(), per_superclass=1, seed=seed).classes) for seed in range(40)}
    assert len(chosen) > 6  # of 12
    assert unlabel(garden(), seed=3).classes == unlabel(garden(), seed=3).classes


def test_many_labels_and_posteriors_lose_columns():
    target = torch.rand(6, 7, generator=torch.Generator().manual_seed(0)) < 0.4
    posterior = torch.rand(6, 7, generator=torch.Generator().manual_seed(1))
    data = unlabel(garden(target, posterior), per_superclass=2)
    kept = [int(name.split()[1]) for name in data.classes]
    assert torch.equal(data.splits["val"].target, target[:, kept])
    assert torch.equal(data.splits["val"].posterior, posterior[:, kept])


def test_what_stays():
    before, after = garden(), unlabel(garden(), per_superclass=1)
    assert after.name == "garden, 5 of 7 classes labelled"
    assert after.multi_label
    assert torch.equal(after.splits["train"].inputs, before.splits["train"].inputs)
    assert after.splits["train"].ids == before.splits["train"].ids


def test_a_superclass_keeps_a_class():
    with pytest.raises(InputError, match="per_superclass: .*got 3, and 'a' has 3"):
        unlabel(garden(), per_superclass=3)


def test_superclasses_are_needed():
    bare = Dataset("bare", ["oak"], {"train": Split(torch.zeros(1, 1), torch.tensor([0]), ["a"])})
    with pytest.raises(InputError, match="bare has no superclasses"):
        unlabel(bare)
    with pytest.raises(InputError, match="per_superclass: expected a whole number from 0"):
        unlabel(garden(), per_superclass=0.5)
