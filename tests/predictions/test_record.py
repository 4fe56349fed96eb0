"""What a record of predictions accepts, refuses and hands out."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from shortlist import Predictions
from shortlist.errors import InputError, NotFittedError
from shortlist.links import Identity, Quasibinary, Softmax, Temperature


def example(rows=6, classes=3, **fields):
    generator = torch.Generator().manual_seed(0)
    fields = {
        "target": torch.arange(rows) % classes,
        "classes": [f"class {label}" for label in range(classes)],
        "ids": [f"row {row}" for row in range(rows)],
        "train_counts": torch.arange(1, classes + 1),
        "link": "softmax",
    } | fields
    return Predictions(torch.randn(rows, classes, generator=generator), **fields)


def with_value(value, row=3, column=1, dtype=torch.float32, rows=5):
    scores = torch.zeros(rows, 3, dtype=dtype)
    scores[row, column] = value
    return scores


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_are_named_by_row_and_class(dtype, value):
    with pytest.raises(InputError, match=rf"expected finite numbers, got {value} in row 3, column 1"):
        Predictions(with_value(value, dtype=dtype))


def test_row_number_counts_from_the_start_of_the_file_not_of_the_block():
    rows = 2**21 // 3 + 10
    with pytest.raises(InputError, match=f"row {rows - 1}, column 2"):
        Predictions(with_value(math.nan, row=rows - 1, column=2, dtype=torch.float16, rows=rows))


def test_infinities_that_cancel_are_seen():
    scores = torch.zeros(2, 2)
    scores[0, 0], scores[1, 1] = math.inf, -math.inf
    with pytest.raises(InputError, match="row 0, column 0"):
        Predictions(scores)


@pytest.mark.parametrize(("dtype", "value"), [(torch.float64, 1e300), (torch.float32, 3e38), (torch.float16, 6e4)])
def test_finite_scores_whose_sum_overflows_are_accepted(dtype, value):
    assert len(Predictions(torch.full((10, 10), value, dtype=dtype))) == 10


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (torch.zeros(3), r"scores: expected floating point \(N, C\), got float32 \(3,\)"),
        (torch.zeros(3, 2, 1), r"got float32 \(3, 2, 1\)"),
        (torch.zeros(3, 2, dtype=torch.int64), r"got int64 \(3, 2\)"),
        (torch.zeros(3, 2, dtype=torch.complex64), r"got complex64 \(3, 2\)"),
        (np.array([["a", "b"]]), "scores: expected numbers, got an array of dtype <U1"),
        (np.array([[None, 1.0]]), "scores: expected numbers, got an array of dtype object"),
        ([[1.0, 2.0], [3.0]], "scores: expected a tensor or an array, got list"),
        ("scores", "scores: expected a tensor or an array, got str"),
        (torch.zeros(3, 0), "expected at least one class"),
    ],
)
def test_scores_of_another_shape_or_kind_are_refused(scores, message):
    with pytest.raises(InputError, match=message):
        Predictions(scores)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([0, 1, 3], "expected labels from 0 to 2, got 3 in row 2"),
        ([0, -1, 1], r"got -1 in row 1: .* rows without a label need a bool \(N, C\) target"),
        ([0, 1], "expected one label for each of the 3 rows of scores, got 2"),
        ([0.0, 1.0, 2.0], r"expected int64 \(3,\), one label a row, or bool \(3, 3\).*got float32 \(3,\)"),
        (torch.zeros(3, 2, dtype=torch.bool), r"expected bool \(3, 3\) like scores, got bool \(3, 2\)"),
        (torch.zeros(3, dtype=torch.bool), r"got bool \(3,\)"),
        (torch.zeros(3, 3, dtype=torch.int64), r"got int64 \(3, 3\)"),
        (["a", "b", "c"], "target: expected a tensor or an array, got list"),
        (np.array(["a", "b", "c"]), "target: expected numbers, got an array of dtype <U1"),
    ],
)
def test_target_that_does_not_belong_to_the_scores_is_refused(target, message):
    with pytest.raises(InputError, match=message):
        Predictions(torch.zeros(3, 3), target)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"classes": ["a", "b"]}, "classes: expected 3 names, got 2"),
        ({"classes": ["a", "b", "a"]}, "classes: expected 3 different names, got 'a' more than once"),
        ({"classes": ["a", "", "b"]}, "empty one for class 1"),
        ({"ids": ["x"]}, "ids: expected 2 names, got 1"),
        ({"ids": ["x", "x"]}, "ids: expected 2 different names, got 'x' more than once"),
        ({"train_counts": [1, 2]}, r"train_counts: expected one number for each of 3 classes, got int64 \(2,\)"),
        ({"train_counts": [[1, 2, 3]]}, r"got int64 \(1, 3\)"),
        ({"train_counts": [1, -2, 3]}, "train_counts: expected numbers from 0, got -2 for class 1"),
        ({"train_counts": [1, 2, math.nan]}, "got nan for class 2"),
        ({"train_counts": [math.inf, 2, 1]}, "got inf for class 0"),
        ({"link": "logistic"}, "expected one of identity, .*got 'logistic'"),
        ({"link": 3}, "link"),
    ],
)
def test_names_counts_and_links_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Predictions(torch.zeros(2, 3), **fields)


@pytest.mark.parametrize("value", [-0.01, 1.01, 7.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_identity_refuses_what_is_no_probability(value, dtype):
    with pytest.raises(InputError, match=r"probabilities from 0 to 1, got .* in row 3, column 1"):
        Predictions(with_value(value, dtype=dtype), link="identity")
    with pytest.raises(InputError, match="row 3, column 1"):
        Predictions(with_value(value, dtype=dtype)).with_link(Identity())


def test_identity_forgives_rounding():
    predictions = Predictions(torch.tensor([[1 + 1e-5, -1e-5]]), link="identity")
    assert predictions.probs().tolist() == [[1, 0]]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64])
def test_integer_labels_of_any_width_become_int64(dtype):
    target = Predictions(np.zeros((3, 3)), np.array([2, 0, 1], dtype)).target
    assert target.dtype == torch.int64
    assert target.tolist() == [2, 0, 1]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numpy_scores_are_taken_without_a_copy(dtype):
    scores = np.zeros((3, 2), dtype)
    predictions = Predictions(scores)
    assert predictions.scores.data_ptr() == scores.ctypes.data


@pytest.mark.parametrize("form", ["read-only", "backwards", "big-endian", "column order"])
def test_arrays_that_torch_cannot_hold_are_read_all_the_same(form):
    scores = np.arange(6.0).reshape(3, 2)
    given_scores = {
        "backwards": scores[::-1],
        "big-endian": scores.astype(">f8"),
        "column order": np.asfortranarray(scores),
    }.get(form, scores)
    given_scores.flags.writeable = form != "read-only"
    assert np.array_equal(Predictions(given_scores).scores.numpy(), given_scores)


def test_bfloat16_is_kept_as_float32():
    assert Predictions(torch.ones(1, 2, dtype=torch.bfloat16)).scores.dtype == torch.float32


def test_defaults_say_that_nothing_is_known():
    predictions = Predictions([[0.0, 1.0]])
    fields = [predictions.target, predictions.classes, predictions.link, predictions.ids, predictions.train_counts]
    assert fields == [None] * 5
    assert predictions.prior is None
    assert predictions.class_names == ("0", "1")
    assert repr(predictions) == "Predictions(1 rows, 2 classes, no target, link None)"


def test_record_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        example().scores = torch.zeros(1, 1)


def test_prior_is_the_share_of_the_training_examples():
    assert example().prior.tolist() == pytest.approx([1 / 6, 2 / 6, 3 / 6])


def test_prior_of_no_training_examples_is_refused():
    with pytest.raises(InputError, match="train_counts"):
        assert example(train_counts=[0, 0, 0]).prior is None


def test_probs_go_through_the_link():
    predictions = example()
    torch.testing.assert_close(predictions.probs(), torch.softmax(predictions.scores, 1))
    assert torch.equal(predictions.plausibility(), predictions.probs())


def test_probs_keep_no_graph():
    assert not Predictions(torch.zeros(1, 2, requires_grad=True), link="softmax").probs().requires_grad


def test_without_a_link_there_are_scores_but_no_probs():
    predictions = example(link=None)
    with pytest.raises(InputError, match="scores: cannot be interpreted as probabilities"):
        predictions.probs()
    assert predictions.plausibility() is predictions.scores


@pytest.mark.parametrize("link", [Temperature(), Quasibinary()])
def test_link_that_was_not_fitted_says_so(link):
    with pytest.raises(NotFittedError):
        example(link=link).probs()


def test_with_link_changes_the_link_alone():
    predictions = example()
    other = predictions.with_link("sigmoid")
    torch.testing.assert_close(other.probs(), torch.sigmoid(predictions.scores))
    for name in ("scores", "target", "train_counts"):
        assert getattr(other, name) is getattr(predictions, name)
    assert (other.ids, other.classes) == (predictions.ids, predictions.classes)
    assert isinstance(predictions.link, Softmax)
    assert predictions.with_link(None).link is None


@given(st.integers(0, 9), st.integers(1, 4), st.integers(1, 30))
@settings(max_examples=50, deadline=None)
def test_blocks_are_the_rows_in_order_and_no_larger_than_asked(rows, classes, entries):
    predictions = example(rows, classes)
    blocks = list(predictions.blocks(entries))
    assert all(len(block) * classes <= max(entries, classes) for block in blocks)
    assert all(len(block) for block in blocks)
    if blocks:
        assert torch.equal(torch.cat([block.scores for block in blocks]), predictions.scores)
        assert torch.equal(torch.cat([block.target for block in blocks]), predictions.target)
    assert sum((block.ids for block in blocks), ()) == predictions.ids
    assert all(block.link is predictions.link and block.classes == predictions.classes for block in blocks)


def test_blocks_share_the_memory_of_the_whole():
    predictions = example()
    second = list(predictions.blocks(6))[1]
    assert second.scores.data_ptr() == predictions.scores[2:].data_ptr()


@pytest.mark.parametrize(
    "index",
    [
        torch.tensor([4, 0, 0]),
        torch.tensor([4, 0, 0], dtype=torch.int32),
        slice(1, 4),
        torch.tensor([], dtype=torch.int64),
        torch.tensor([False, True, False, False, True, True]),
    ],
)
@pytest.mark.parametrize("many", [True, False])
def test_rows_takes_these_rows_of_every_field(index, many):
    target = torch.rand(6, 3, generator=torch.Generator().manual_seed(1)) < 0.5
    predictions = example(target=target) if many else example()
    places = torch.arange(6)[index].tolist()
    part = predictions.rows(index)
    assert part.scores.tolist() == [predictions.scores[place].tolist() for place in places]
    assert part.target.tolist() == [predictions.target[place].tolist() for place in places]
    ids = [predictions.ids[place] for place in places]
    assert part.ids == (tuple(ids) if len(set(ids)) == len(ids) else None)  # a row taken twice has no name of its own
    assert part.train_counts is predictions.train_counts


@given(st.integers(2, 40), st.floats(0.05, 0.95), st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_split_shares_out_every_row_once_in_order(rows, share, seed):
    predictions = example(rows)
    wanted = math.floor(share * rows + 0.5)
    if wanted in (0, rows):
        with pytest.raises(InputError, match="one would be empty"):
            predictions.split(share, seed=seed)
        return
    parts = predictions.split(share, seed=seed)
    places = [[int(name.split()[1]) for name in part.ids] for part in parts]
    assert [len(part) for part in parts] == [wanted, rows - wanted]
    assert sorted(places[0] + places[1]) == list(range(rows))
    assert all(place == sorted(place) for place in places)
    assert all(torch.equal(part.scores, predictions.scores[place]) for part, place in zip(parts, places, strict=True))


def test_split_depends_on_the_seed_alone():
    predictions = example(200)
    assert predictions.split(0.5, seed=1)[0].ids == predictions.split(0.5, seed=1)[0].ids
    assert predictions.split(0.5, seed=1)[0].ids != predictions.split(0.5, seed=2)[0].ids


@pytest.mark.parametrize("share", [0, 1, -0.5, 2, math.nan])
def test_split_refuses_a_share_that_is_none(share):
    with pytest.raises(InputError, match="share: expected a number between 0 and 1"):
        example().split(share)


def test_superclasses_stay_with_the_classes():
    given = Predictions(torch.zeros(3, 2), superclasses=["oaks", "oaks"])
    assert given.superclasses == ("oaks", "oaks")
    for derived in (given.rows([0, 2]), given.with_link("softmax"), *given.blocks(), *given.split(0.5)):
        assert derived.superclasses == ("oaks", "oaks")


@pytest.mark.parametrize(("names", "came"), [(["oaks"], "1"), (["oaks", ""], "an empty one"), ([], "0")])
def test_superclasses_name_every_class(names, came):
    with pytest.raises(InputError, match=f"superclasses: expected 2 names.*got {came}"):
        Predictions(torch.zeros(3, 2), superclasses=names)


@pytest.mark.parametrize("none", [[], (), np.array([], int), torch.tensor([], dtype=torch.int64)])
def test_no_rows_can_be_chosen(none):
    chosen = Predictions(np.eye(3), [0, 1, 2], ids=list("abc")).rows(none)
    assert (len(chosen), chosen.num_classes, list(chosen.ids)) == (0, 3, [])
