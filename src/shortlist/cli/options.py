"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

BINS = 15  # that of shortlist.evaluation.tally, whose import help can do without


def _check_seed(seed: int) -> int:
    """Checked here rather than by ``max=``, which would show the range in every help."""
    if not 0 <= seed < 2**63:
        raise typer.BadParameter(f"expected a whole number from 0 to 2**63 - 1, got {seed}")
    return seed


Scores: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="PREDICTIONS", help="File of scores (.safetensors, .npz, .npy, .parquet, .csv), or the folder of a run."
    ),
]
ManyScores: TypeAlias = Annotated[
    list[Path], typer.Argument(metavar="PREDICTIONS…", help="Files of scores or folders of runs; several are compared.")
]
Rule: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--rule",
        "-r",
        metavar="RULE",
        help="How sets are made: top-k:5, average-k:5, lac:0.1, aps:0.1, raps:0.1, mass:0.1, threshold:0.5, pas:0.1, "
        "risk-control:recall:0.1, per-label:f1, per-label:precision:0.9; optionally followed by ,classwise ,interpolated:0.5 "
        ",cap:10 ,floor:1 ,gate:0.95 ,gate:0.95:quality ,by:COLUMN. Or a file written with --save-rule. "
        "A run has a rule of its own.",
    ),
]
Rules: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--rule", "-r", metavar="RULE", help="How sets are made, as for `sets`; repeat it to compare rules."),
]
Calibration: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--calibration", "-c", metavar="FILE", help="Calibration rows to fit the rule on; one file for each file of scores."
    ),
]
Split: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--split",
        metavar="SHARE",
        help="Use this share of the rows, drawn at random, as calibration rows, and the rest as test rows.",
    ),
]
Seed: TypeAlias = Annotated[
    int, typer.Option("--seed", metavar="N", callback=_check_seed, help="Seed of --split and of randomised rules.")
]
DrawSeed: TypeAlias = Annotated[
    int, typer.Option("--seed", metavar="N", callback=_check_seed, help="Seed of what is drawn at random: samples, folds.")
]
SameRows: TypeAlias = Annotated[
    bool, typer.Option("--same-rows", help="Fit and measure on the same rows; errors then look smaller than they are.")
]
Link: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--link",
        "-l",
        metavar="LINK",
        help="How scores become probabilities: softmax, sigmoid, identity (they are probabilities), spa, "
        "focal-recovery:GAMMA_POS:GAMMA_NEG:SHIFT, or none.",
    ),
]
ScoresKey: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--scores-key", metavar="NAME", help="Array or column that holds the scores; prob_* means one column per class."
    ),
]
TargetKey: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--target-key", metavar="NAME", help="Array or column that holds the labels; for .npy scores, the .npy file of labels."
    ),
]
IdsKey: TypeAlias = Annotated[
    str | None,
    typer.Option("--ids-key", metavar="NAME", help="Array or column that holds the names of the rows; by default id."),
]
QualityKey: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--quality-key",
        metavar="NAME",
        help="Array or column that holds one number per row, higher for better rows, which gate:0.95:quality compares rows by; "
        "by default quality.",
    ),
]
WeightsKey: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--weights-key",
        metavar="NAME",
        help="Array or column that holds what each calibration row counts for: how much more often rows like it are among new "
        "rows than among these.",
    ),
]
VotesKey: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--votes-key",
        metavar="NAME",
        help="Votes for each label of the calibration rows, which the rule is fitted on in place of their labels: an array of "
        ".npz or .safetensors, (rows, classes), or votes_* for one column a class.",
    ),
]
Keep: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="COLUMN",
        help="Write this array or column of a file of another program beside the scores, such as the site; repeat it for "
        "several. Those of a file of shortlist are always kept.",
    ),
]
By: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="COLUMN",
        help="Show coverage and size for each value of this array or column, such as the site; repeat it for several. That of "
        "a rule by group is shown without being asked for.",
    ),
]
NoLabel: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--no-label",
        metavar="TEXT",
        help="Entry of the labels that stands for no label, such as -1, none, or '' for an empty cell; a gate is fitted on "
        "such rows.",
    ),
]
Classes: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--classes",
        metavar="FILE",
        help="Names of the classes for files that lack them: one name a line in the order of the scores, or a JSON list.",
    ),
]
EngineName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Where the work is done: local, or ray, by workers on a Ray cluster (extra: cluster), with the same result.",
    ),
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="With --engine ray: the cluster to join; by default RAY_ADDRESS, or one that is started on this machine.",
    ),
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", help="With --engine ray: number of workers; by default one for each CPU or GPU."),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]
CalibrationBins: TypeAlias = Annotated[
    int,
    typer.Option(
        "--calibration-bins",
        metavar="N",
        help="Number of bins of equal width of calibration errors, reliability diagrams and the calibration test.",
    ),
]
TopN: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--top-n",
        metavar="N",
        help="Measure calibration errors and macro F1 of the N most probable labels of each row; by default 4 if rows have "
        "several labels.",
    ),
]
Shots: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--shots",
        metavar="EDGES",
        help="Group classes by their number of training examples: 10,50 has the groups 0-10, 11-50 and 51+; by default few "
        "(fewer than 20), medium and many (more than 100).",
    ),
]
Csv: TypeAlias = Annotated[bool, typer.Option("--csv", help="Write CSV to standard output.")]
Strict: TypeAlias = Annotated[bool, typer.Option("--strict", help="Exit with code 3 if there was a warning.")]
NetworkPath: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="MODULE:FUNCTION",
        help="A network of your own: a function, called with classes= (and inputs= if it takes it), that returns a torch "
        "module. Modules in the current folder are found.",
    ),
]
