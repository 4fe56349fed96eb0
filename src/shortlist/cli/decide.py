"""``shortlist sets`` and ``shortlist evaluate``: the options. What they do is in ``deciding.py``, imported when they run."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in


@written_in("deciding")
def sets(
    scores: options.Scores,
    rule: options.Rule = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the sets to this file, .parquet, .jsonl or .csv.")
    ] = None,
    calibration: options.Calibration = None,
    split: options.Split = None,
    seed: options.Seed = 0,
    same_rows: options.SameRows = False,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
    ids_key: options.IdsKey = None,
    quality_key: options.QualityKey = None,
    weights_key: options.WeightsKey = None,
    votes_key: options.VotesKey = None,
    no_label: options.NoLabel = None,
    classes: options.Classes = None,
    save_rule: Annotated[
        Path | None,
        typer.Option(
            "--save-rule", metavar="FILE", help="Save the fitted rule as .safetensors, to be used again with --rule FILE."
        ),
    ] = None,
    p_values: Annotated[
        bool,
        typer.Option(
            "--p-values",
            help="Write the p-value of every label too, of a conformal rule: columns p_value_CLASS, or an object in JSON. A "
            "rule that is saved then keeps the values of its calibration rows, 8 bytes each.",
        ),
    ] = False,
    as_json: options.Json = False,
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: options.Workers = None,
    strict: options.Strict = False,
) -> None:
    """Turn scores into sets of labels: for each row, labels with their probabilities, most probable first."""


@written_in("deciding")
def evaluate(
    scores: options.ManyScores,
    rule: options.Rules = None,
    calibration: options.Calibration = None,
    split: options.Split = None,
    seed: options.Seed = 0,
    same_rows: options.SameRows = False,
    link: options.Link = None,
    scores_key: options.ScoresKey = None,
    target_key: options.TargetKey = None,
    quality_key: options.QualityKey = None,
    weights_key: options.WeightsKey = None,
    votes_key: options.VotesKey = None,
    no_label: options.NoLabel = None,
    classes: options.Classes = None,
    calibration_bins: options.CalibrationBins = options.BINS,
    top_n: options.TopN = None,
    shots: options.Shots = None,
    by: options.By = None,
    per_class: Annotated[
        Path | None,
        typer.Option(
            "--per-class", metavar="FILE", help="Write coverage, mean size and calibration of each class to this file, .csv."
        ),
    ] = None,
    as_json: options.Json = False,
    as_csv: options.Csv = False,
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: options.Workers = None,
    strict: options.Strict = False,
) -> None:
    """Measure the sets of a rule on labelled scores: coverage, size, calibration; several files or rules side by side."""
