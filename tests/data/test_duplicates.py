"""Near duplicates: prints by exact averages, every pair within the distance and no other, those on both sides of a split."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist.data import duplicates as module
from shortlist.data.duplicates import fingerprints, near_duplicates, straddling, warn_straddling
from shortlist.data.splits import grouped_split, split_names
from shortlist.errors import InputError, ShortlistWarning
from tests.references import splits as ref_splits, transforms as ref


def brute_force(prints, distance):
    """Every pair of rows with information whose prints differ in at most this many bits."""
    words = [int(word) for word in prints]
    told = [row for row, word in enumerate(words) if word]
    return [[i, j] for i in told for j in told if i < j and (words[i] ^ words[j]).bit_count() <= distance]


def draw(rows, bits, seed, copies=0, flips=3):
    """Random prints in which only some bits vary, and copies of some with a few bits flipped."""
    random = np.random.default_rng(seed)
    prints = np.zeros(rows, np.uint64)
    for bit in random.choice(64, bits, replace=False):
        prints |= random.integers(0, 2, rows, dtype=np.uint64) << np.uint64(bit)
    near = prints[random.integers(rows, size=copies)]
    for _ in range(flips):
        near ^= np.where(random.random(copies) < 0.7, np.uint64(1) << random.integers(0, 64, copies, dtype=np.uint64), 0)
    return random.permutation(np.concatenate([prints, near]))


@pytest.mark.parametrize("shape", [(3, 8, 9), (3, 5, 4), (1, 1, 1), (3, 11, 23), (1, 16, 18), (3, 17, 10)])
def test_prints_are_those_of_exact_averages(shape):
    generator = torch.Generator().manual_seed(sum(shape))
    images = torch.randint(0, 256, (6, *shape), dtype=torch.uint8, generator=generator)
    images[4:] //= 64  # many equal cells
    found = fingerprints(images)
    assert found.dtype == torch.uint64
    assert found.tolist() == [ref.fingerprint(image.numpy()) for image in images]


def test_prints_do_not_depend_on_the_batch_the_order_in_memory_or_autocast():
    images = torch.randint(0, 256, (40, 3, 260, 260), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    together = fingerprints(images).tolist()  # more than a block
    assert together == [fingerprints(image[None]).tolist()[0] for image in images]
    assert fingerprints(images[:3].to(memory_format=torch.channels_last)).tolist() == together[:3]
    with torch.autocast("cpu", torch.bfloat16):
        assert fingerprints(images[:3]).tolist() == together[:3]


def test_grey_pictures_have_the_print_of_their_colour_form_and_no_pictures_have_none():
    grey = torch.randint(0, 256, (4, 1, 20, 20), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(fingerprints(grey).long(), fingerprints(grey.expand(-1, 3, -1, -1)).long())
    assert fingerprints(grey[:0]).shape == (0,)


def test_smaller_brighter_and_noisier_copies_stay_near_and_others_far():
    """Smooth random pictures: 200 pairs of different ones; the least of 200 distances of about 32 ± 4 is above 10."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(200, 3, 6, 6, generator=generator)
    images = torch.nn.functional.interpolate(coarse, 96, mode="bicubic").clamp(0, 1) * 200
    small = torch.nn.functional.interpolate(images, 70, mode="bilinear", antialias=True) * 0.9 + 20
    noisy = small + torch.randn(small.shape, generator=generator)
    one, other = (fingerprints(batch.round().clamp(0, 255).to(torch.uint8)).numpy() for batch in (images, noisy))
    distance = np.array([int(word).bit_count() for word in one ^ other])
    assert np.quantile(distance, 0.95) <= 3
    assert min(int(word).bit_count() for word in one ^ np.roll(other, 1)) > 10


@pytest.mark.parametrize(
    "images",
    [
        torch.zeros(2, 3, 8, 8),
        torch.zeros(3, 8, 8, dtype=torch.uint8),
        torch.zeros(2, 4, 8, 8, dtype=torch.uint8),
        torch.zeros(2, 3, 0, 8, dtype=torch.uint8),
    ],
)
def test_other_pictures_are_refused(images):
    with pytest.raises(InputError, match="images: expected uint8"):
        fingerprints(images)


@pytest.mark.parametrize("distance", [0, 1, 3, 6, 20])
@pytest.mark.parametrize("bits", [3, 12, 64])
def test_all_pairs_are_found_and_no_others(bits, distance):
    rows = 400 if distance < 20 and bits == 64 else 150
    prints = draw(rows, bits, seed=distance, copies=40)
    assert near_duplicates(prints, distance=distance).row_pairs().tolist() == brute_force(prints, distance)


@pytest.mark.parametrize("distance", [1, 3, 5])
@pytest.mark.parametrize("bits", [10, 14, 40])
def test_crowded_bands_are_divided_further_without_losing_or_doubling_a_pair(bits, distance, monkeypatch):
    monkeypatch.setattr(module, "SMALL", 4)
    monkeypatch.setattr(module, "AT_ONCE", 50)
    prints = draw(500, bits, seed=bits, copies=60)
    assert near_duplicates(prints, distance=distance).row_pairs().tolist() == brute_force(prints, distance)


def test_three_thousand_prints_agree_with_brute_force():
    prints = draw(2700, 64, seed=0, copies=300)
    words = prints[:, None] ^ prints
    few = words.copy()
    for _ in range(3):
        few &= few - np.uint64(1)
    expected = np.argwhere(np.triu(few == 0, 1))
    found = near_duplicates(prints)
    assert np.array_equal(found.row_pairs().numpy(), expected)
    assert len(expected) >= 200


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 7, 15, 2**63, 2**64 - 1, 2**64 - 2]), max_size=30), st.integers(0, 5))
def test_copies_zeros_and_the_highest_bit(prints, distance):
    found = near_duplicates(prints, distance=distance)
    assert found.row_pairs().tolist() == brute_force(prints, distance)
    assert found.flat == prints.count(0)
    for one in range(len(prints)):
        assert (found.group[one] == -1) == (prints[one] == 0)
        for other in range(one):
            if prints[one]:
                assert (found.group[one] == found.group[other]) == (prints[one] == prints[other])


def test_a_crowd_of_copies_is_one_group():
    prints = np.array([5] * 100_000 + [4] + [0] * 50_000 + [2**50], np.uint64)
    found = near_duplicates(prints)
    assert found.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert found.flat == 50_000
    assert found.group[[0, 99_999, 100_000, 100_001, 150_001]].tolist() == [0, 0, 1, -1, 2]
    assert len(straddling(found, np.arange(len(prints)) % 2)) == 100_002


def test_prints_are_taken_as_tensors_arrays_and_lists():
    words = [2**64 - 1, 2**64 - 2, 8]
    for prints in (words, np.array(words, np.uint64), torch.from_numpy(np.array(words, np.uint64).view(np.int64))):
        assert near_duplicates(prints).pairs.tolist() == [[0, 1]]
    assert near_duplicates([]).row_pairs().shape == (0, 2)
    assert near_duplicates([]).clusters().shape == (0,)


@pytest.mark.parametrize("prints", [[-1], [2**64], ["a"], torch.zeros(3), torch.zeros(2, 2, dtype=torch.int64), [[1, 2]]])
def test_other_prints_are_refused(prints):
    with pytest.raises(InputError, match="prints: expected"):
        near_duplicates(prints)


@pytest.mark.parametrize("distance", [-1, 64, 1.5, "three"])
def test_other_distances_are_refused(distance):
    with pytest.raises(InputError, match="distance: expected"):
        near_duplicates([1], distance=distance)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=30), st.integers(0, 2), st.integers(0, 99))
def test_straddling_rows_are_those_with_a_duplicate_on_another_side(prints, distance, seed):
    side = np.random.default_rng(seed).choice(["train", "val", "test"], len(prints))
    found = near_duplicates(prints, distance=distance)
    expected = {}
    for one, other in brute_force(prints, distance):
        if side[one] != side[other]:
            expected[one] = min(other, expected.get(one, other))
            expected[other] = min(one, expected.get(other, one))
    assert straddling(found, side.tolist()).tolist() == [[row, expected[row]] for row in sorted(expected)]
    clusters = ref_splits.clusters(len(prints), brute_force(prints, distance))
    assert {tuple(found.clusters().tolist().index(c) for c in found.clusters().tolist())} == {tuple(clusters)}


def test_chains_longer_than_a_step_are_one_cluster():
    prints = [(1 << n) - 1 for n in range(1, 60)]
    prints = [prints[n * 23 % 59] for n in range(59)]
    assert near_duplicates(prints, distance=1).clusters().unique().numel() == 1


@pytest.mark.filterwarnings("ignore::shortlist.errors.ShortlistWarning")
def test_a_split_by_clusters_has_none_on_both_sides():
    prints = draw(300, 64, seed=4, copies=100)
    found = near_duplicates(prints)
    target = np.arange(len(prints)) % 3
    assert len(straddling(found, np.random.default_rng(0).integers(2, size=len(prints)))) > 50
    split = grouped_split(target, found.clusters(), seed=0)
    assert straddling(found, split_names(split)).shape == (0, 2)


def test_one_warning_counts_them_and_names_three():
    prints = [3, 3, 1 << 40, 1 << 40, 7 << 20, 7 << 20, 15 << 50, 15 << 50]
    side = ["train", "test"] * 4
    found = near_duplicates(prints, distance=0)
    text = (
        r"^8 of 8 pictures have a near duplicate in another split, such as a \(train\) and b \(test\), "
        r"c \(train\) and d \(test\), e \(train\) and f \(test\): "
    )
    with pytest.warns(ShortlistWarning, match=text) as caught:
        pairs = warn_straddling(found, side, ids=list("abcdefgh"))
    assert len(caught) == 1
    assert torch.equal(pairs, straddling(found, side))
    with pytest.warns(ShortlistWarning, match=r"such as 0 \(0\) and 1 \(1\), 2 \(0\)"):
        warn_straddling(found, torch.arange(8) % 2)


def test_nothing_is_said_where_nothing_straddles(recwarn):
    assert len(warn_straddling(near_duplicates([3, 3, 0, 0]), ["train", "train", "train", "test"])) == 0
    assert not recwarn.list


def test_a_split_or_an_id_for_each_row_is_needed():
    found = near_duplicates([3, 3])
    with pytest.raises(InputError, match="split: .*got 1"):
        straddling(found, ["train"])
    with pytest.raises(InputError, match="ids: .*got 3"):
        warn_straddling(found, ["train", "test"], ids=["a", "b", "c"])
