"""Learn then test, threshold by threshold and row by row."""

from scipy import stats

from tests.references.sets import risk_p_value


def row_loss(name, chosen, marks):
    """The share of a row's labels that is missed, of its set that is wrong, one minus their F1, or whether one is missed."""
    right, size, positives = int((chosen & marks).sum()), int(chosen.sum()), int(marks.sum())
    if name == "recall":
        return 1 - right / positives if positives else 0.0
    if name == "precision":
        return 1 - right / size if size else 0.0
    if name == "f1":
        return 1 - 2 * right / (size + positives) if size + positives else 0.0
    return float(right < positives)


GRID = [0.001, 0.002, 0.005, *[place / 100 for place in range(1, 100)]]


def learn_then_test_cut(probs, marks, losses, delta):
    """The highest threshold that is rejected: from the smallest on up to a failure if losses grow, else at δ / number."""
    ps = []
    for cut in GRID:
        totals = {n: sum(row_loss(n, row >= cut, own) for row, own in zip(probs, marks, strict=True)) for n in losses}
        exact = {n: stats.binom.cdf(totals[n], len(probs), losses[n]) for n in losses}
        ps.append(max(exact[n] if n == "miscoverage" else risk_p_value(totals[n], len(probs), losses[n]) for n in losses))
    if set(losses) <= {"recall", "miscoverage"}:
        failed = [place for place, p in enumerate(ps) if p > delta]
        return GRID[(failed[0] if failed else len(GRID)) - 1]
    return [cut for cut, p in zip(GRID, ps, strict=True) if p <= delta / len(GRID)][-1]
