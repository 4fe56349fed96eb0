"""Columns of CSV files by which rows are grouped: codes stay as they are written, and numbers are those of other files."""

import numpy as np
import pandas as pd
import pytest

from shortlist import Predictions
from shortlist.predictions.columns import as_names
from shortlist.predictions.csv_tables import as_groups
from shortlist.predictions.group_spellings import name_of_value
from shortlist.predictions.storage import load as load_by
from shortlist.predictions.stored import Keys


def column(folder, cells, delimiter=",", score="0.5"):
    path = folder / "rows.csv"
    lines = [delimiter.join(["p_a", "p_b", "site"]), *(delimiter.join([score, score, cell]) for cell in cells)]
    path.write_text("\n".join(lines) + "\n", newline="")
    return Predictions.load(path, scores_key="p_*", link="identity", columns=["site"]).columns["site"]


@pytest.mark.parametrize(
    "cells",
    [
        ["007", "07", "7"],
        ["01", "02"],
        ["12345678901234567890", "12345678901234567891"],
        ["9007199254740993", "1.5"],
        ["1.1", "1.10"],
        ["1.10", "2.5"],
        ["1e5", "100000"],
        ["1e5", "23"],
        ["0x10", "16"],
        ["1E-400", "0.5"],
        [".5", "0.5"],
        ["1", "true"],
        ["NA", "NA"],
        ["01", "NA", ""],
        ["0", "-0.0", "+1", "1", "2.5"],
    ],
)
def test_codes_stay_as_they_are_written(tmp_path, cells):
    assert column(tmp_path, cells).tolist() == cells


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2", ""], [1.0, 2.0, None]),
        (["3", "3.0", "NA"], [3.0, 3.0, None]),
        (["0.50", "0.25"], [0.5, 0.25]),
        (["-0.0", "0.0", "1.5"], [0.0, 0.0, 1.5]),
        (["1e-05", "0.25"], [1e-05, 0.25]),
        (["1234567890123456.0", ""], [1234567890123456.0, None]),
        (["-12", "1234567890123456789"], [-12, 1234567890123456789]),
    ],
)
def test_numbers_as_programs_write_them_stay_numbers(tmp_path, cells, expected):
    found = column(tmp_path, cells)
    assert found.dtype.kind in "if"
    assert [None if one != one else one for one in found.tolist()] == expected


def test_the_decimal_comma_is_no_part_of_a_code(tmp_path):
    assert column(tmp_path, ["1,50", "0,25"], ";", "0,5").tolist() == [1.5, 0.25]
    assert column(tmp_path, ["1,5", "1,50"], ";", "0,5").tolist() == ["1,5", "1,50"]
    assert column(tmp_path, ["1e-05", "0,25"], ";", "0,5").tolist() == [1e-05, 0.25]


@pytest.mark.parametrize(
    "entries",
    [
        [1, 2, 3],
        pd.array([1, None, 3], "Int64"),
        [1.0, np.nan, 3.0],
        [0.5, 1.0, 1e-7],
        [2.0**53, np.nan, 1e22],
        [2**53 + 1, 2, 3],
        [True, False, True],
        pd.to_datetime(["2024-05-01 10:30", "2024-05-02 00:00", "2024-05-02 00:01"]),
        ["A7", "01", ""],
    ],
)
def test_groups_are_the_same_in_csv_and_parquet(tmp_path, entries):
    frame = pd.DataFrame({"p_a": [0.5] * 3, "p_b": [0.5] * 3, "site": entries})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "b.csv", index=False, sep=";", decimal=",")
    frame.to_parquet(tmp_path / "c.parquet")
    found = [
        as_names(Predictions.load(path, scores_key="p_*", link="identity", columns=["site"]).columns["site"])
        for path in sorted(tmp_path.iterdir())
    ]
    assert found[0] == found[1] == found[2]


def test_columns_that_are_known_to_hold_numbers_are_read_as_such_however_they_are_written(tmp_path):
    column(tmp_path, ["0.5", "0.50", "1e2"])
    keys = Keys("p_*", columns=("site",), numbers=("site",))
    assert load_by(tmp_path / "rows.csv", keys, "identity").columns["site"].tolist() == [0.5, 0.5, 100.0]


def test_a_quality_that_is_kept_as_a_column_too_stays_one(tmp_path):
    column(tmp_path, ["0.5", "0.50"])
    found = Predictions.load(tmp_path / "rows.csv", scores_key="p_*", link="identity", quality_key="site", columns=["site"])
    assert found.quality.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("cells", "known", "expected"),
    [
        (["1.10", "1.20"], ["1.1", "1.10", "1.2"], ["1.10", "1.20"]),
        (["3.0", ""], ["3", "3.0", "x"], ["3.0", ""]),
        (["3.0", "4"], ["3", "4", "x"], ["3", "4"]),  # as programs write numbers where one is missing
        (["1.50", "0.25"], ["0.5", "1.5", "x"], ["1.50", "0.25"]),
        (["true", "FALSE"], ["True", "true", "x"], ["true", "False"]),
        (["1.1", "1.2"], ["1.1", "1.10", "1.2"], ["1.1", "1.2"]),
        (["3.0", "north", " 4"], ["3", "4", "north"], ["3", "north", "4"]),
        (["007", "7", " 007", " x"], ["007", "x"], ["007", "7", "007", " x"]),
        (["true", "maybe", " true"], ["True", "False"], ["True", "maybe", " true"]),
        (["12:30", "12:30:00", "late"], ["12:30:00"], ["12:30:00", "12:30:00", "late"]),
    ],
)
def test_numbers_are_spelt_as_the_groups_of_another_file(tmp_path, cells, known, expected):
    found = column(tmp_path, cells)
    keys = Keys(scores="p_*", columns=("site",))
    assert as_groups(tmp_path / "rows.csv", "site", found, known, keys).tolist() == expected


def test_a_decimal_comma_is_the_point_of_other_files(tmp_path):
    found = column(tmp_path, ["1,50", "1,10"], delimiter=";", score="0,5")
    keys = Keys(scores="p_*", columns=("site",))
    assert as_groups(tmp_path / "rows.csv", "site", found, ["1.50", "1.10", "x"], keys).tolist() == ["1.50", "1.10"]
    found = column(tmp_path, ["1,5", "a,b", "3,0", " 1,5"], delimiter=";", score="0,5")
    assert as_groups(tmp_path / "rows.csv", "site", found, ["1.5", "3", "a.b"], keys).tolist() == ["1.5", "a,b", "3", "1.5"]


VALUES = [
    *["true", "TRUE", "True", "tRUE", "false", "inf", "-Inf", "+infinity", "12:30", "12:30:59", "24:00", "12:60", "1:30"],
    *["2024-05-01 12", "2024-05-01T12:30", "2024-05-01 12:30:10", "2024-02-30 12:30", "2024-05-01 24:00", "2024-05-01t12:30"],
    *["2024-05-01 12:30:10.5", "2024-05-01 12:30:10.000", "2024-05-01 12:30:10.123456789", "2024-05-01 12:30.5"],
    *["2024-05-01T12:30Z", "2024-05-01 12:30:10+02", "2024-05-01 12:30:10-0230", "2024-05-01 12:30:10.5+02:00"],
    *["2024-05-01Z", "2024-05-01 12:30+02:60", "2024-05-01 12:30+24:00", "0001-01-01 00:00", "9999-12-31 23:59:59"],
]


@pytest.mark.parametrize("cell", VALUES)
def test_truths_and_times_are_called_as_in_a_column_of_their_own(tmp_path, cell):
    [read] = column(tmp_path, [cell]).tolist()
    named = name_of_value(cell)
    if named is None:
        assert read == cell
    else:
        assert as_names(np.array([read])) == [named]
