"""Coverage and size by groups of rows, for any column."""

import numpy as np
import pytest

from shortlist import Predictions, evaluate
from shortlist.errors import InputError
from shortlist.evaluation import measure
from shortlist.report import write_report
from shortlist.sets import by, lac, threshold


def rows(many=False, seed=0, n=80):
    random = np.random.default_rng(seed)
    probs = random.dirichlet(np.ones(3), n)
    target = random.uniform(size=probs.shape) < probs if many else random.integers(3, size=n)
    columns = {"site": random.choice(["north", "south", ""], n), "year": random.choice([2019, 2020], n)}
    return Predictions(probs, target, link="identity", columns=columns)


def wilson(hits, n, z=1.959963984540054):
    """Literally, from the definition."""
    centre, half = (hits + z * z / 2) / (n + z * z), z / (n + z * z) * np.sqrt(hits * (n - hits) / n + z * z / 4)
    return centre - half, centre + half


@pytest.mark.parametrize("many", [False, True])
def test_every_group_has_its_own_coverage(many):
    predictions = rows(many)
    found = measure(predictions, threshold(0.3), by=["site", "year"])
    sets = predictions.probs().numpy() >= 0.3
    marks = predictions.target.numpy() if many else np.eye(3, dtype=bool)[predictions.target.numpy()]
    for name, values in predictions.columns.items():
        frame = found.by_column(name)
        assert list(frame.index) == sorted({str(value) for value in values})
        for group, row in frame.iterrows():
            own = values.astype(str) == group
            hits, labels = (sets & marks)[own].sum(), marks[own].sum()
            assert (row.rows, row.labels) == (own.sum(), labels)
            assert row.coverage == pytest.approx(hits / labels)
            assert (row.coverage_low, row.coverage_high) == pytest.approx(wilson(hits, labels), abs=1e-6)
            assert row["size"] == pytest.approx(sets[own].sum(1).mean())
            assert row.empty_sets == pytest.approx((sets[own].sum(1) == 0).mean())
    same = found.by_column(predictions.columns["year"].astype(float))
    assert same.equals(found.by_column("year"))


def test_the_column_of_a_rule_is_counted_by_without_being_asked_for():
    predictions = rows()
    rule = by(lac(0.3), "year", 1).fit(rows(seed=1))
    assert list(evaluate(predictions, rule).columns) == ["year"]
    assert list(evaluate(predictions, rule, by="site").columns) == ["site", "year"]
    assert evaluate(predictions, by="year").by_column("year").empty


def test_a_column_that_is_missing_is_told():
    with pytest.raises(InputError, match=r"by: expected a column of the predictions \(site, year\), got 'camera'"):
        measure(rows(), threshold(0.3), by=["camera"])
    with pytest.raises(InputError, match="column: expected one of site, got 'year'"):
        measure(rows(), threshold(0.3), by=["site"]).by_column("year")


def test_the_report_shows_the_groups(tmp_path):
    write_report(measure(rows(), threshold(0.3), by=["site"]), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert '<section id="groups">' in text
    assert "south" in text
    write_report(measure(rows(), threshold(0.3)), tmp_path / "plain.html")
    assert '<section id="groups">' not in (tmp_path / "plain.html").read_text()
