"""What probabilities of several labels a row are worth: ranking, calibration and retrieval, for several readings of the scores.

Scores are read by the link of their loss (``own``), by the sigmoid as if they were log-odds (``sigmoid``), by links that are
fitted to them on validation rows (``Platt``, ``isotonic``), and where they come from a softmax by its temperature.
"""

from collections.abc import Iterator

from torch import Tensor

from shortlist.claims.experiment import Numbers
from shortlist.links import Isotonic, Platt, Sigmoid, Softmax, Temperature
from shortlist.links.fitted import FittedLink
from shortlist.metrics import calibration_error, evaluate_retrieval, logs_of, mean_average_precision, top_n_f1
from shortlist.predictions import Predictions

OWN, SIGMOID, PLATT, ISOTONIC, TEMPERATURE, BEST = "own", "sigmoid", "Platt", "isotonic", "temperature", "best"
TOP = 4  # labels of a row that Liao looks at
LENGTHS = range(1, 6)  # of queries
ALL_QUERIES, SAMPLED_QUERIES = 3000, 500  # all queries of a length are asked up to the first, else the second is drawn


def label_numbers(held: Predictions, test: Predictions, posterior: Tensor | None) -> Numbers:
    """Numbers in percent, by name.

    Of the scores: ``mAP@y`` over classes and ``mAP@x`` over rows, and ``F1-4`` of the 4 highest labels of each row. With a
    reading behind them: ``ACE`` and ``MCE`` over all pairs in 15 bins, ``ECE-4`` over the 4 most confident labels of each row
    in 10 bins, ``retrieval``, the mean average precision of all queries of up to 5 labels, and ``retrieval-n`` of those of n.

    Args:
        held: rows that links are fitted on.
        test: rows that are measured.
        posterior: the true probability of each label of the test rows, which gives the reading ``best``; None if not known.
    """
    assert test.target is not None
    found = {name: 100 * value for name, value in _ranking(test.scores, test.target).items()}
    for name, predictions in _readings(held, test, posterior):
        found |= {f"{number} {name}": 100 * value for number, value in _reading(predictions).items()}
    if posterior is not None:
        found |= {f"{name} {BEST}": 100 * value for name, value in _ranking(posterior, test.target).items()}
    return found


def _readings(held: Predictions, test: Predictions, posterior: Tensor | None) -> Iterator[tuple[str, Predictions]]:
    if test.link is not None:
        yield OWN, test
    yield SIGMOID, test.with_link(Sigmoid())
    fitted: dict[str, FittedLink] = {PLATT: Platt(), ISOTONIC: Isotonic(pseudo_counts=0)}
    if isinstance(test.link, Softmax):
        fitted[TEMPERATURE] = Temperature(Softmax())
    assert held.target is not None
    for name, link in fitted.items():
        yield name, test.with_link(link.fit(held.scores, held.target))
    if posterior is not None:
        yield BEST, Predictions(posterior, test.target, link="identity")


def _ranking(scores: Tensor, target: Tensor) -> Numbers:
    return {
        "mAP@y": float(mean_average_precision(scores, target)),
        "mAP@x": float(mean_average_precision(scores, target, axis="example")),
        f"F1-{TOP}": float(top_n_f1(scores, target, n=TOP)),
    }


def _reading(predictions: Predictions) -> Numbers:
    probs, target = predictions.probs(), predictions.target
    asked = evaluate_retrieval(*logs_of(predictions), target, max_length=LENGTHS[-1], most=ALL_QUERIES, sample=SAMPLED_QUERIES)
    return {
        "ACE": float(calibration_error(probs, target, norm="average", over="all")),
        "MCE": float(calibration_error(probs, target, norm="max", over="all")),
        f"ECE-{TOP}": float(calibration_error(probs, target, bins=10, over=TOP)),
        "retrieval": asked.map,
        **{f"retrieval-{length}": one.map for length, one in zip(LENGTHS, asked.by_length, strict=True)},
    }
