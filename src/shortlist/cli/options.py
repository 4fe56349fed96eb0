"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Scores: TypeAlias = Annotated[
    Path, typer.Argument(metavar="PREDICTIONS", help="Scores: .safetensors, .npz, .parquet or .csv; or the folder of a run.")
]
ManyScores: TypeAlias = Annotated[
    list[Path], typer.Argument(metavar="PREDICTIONS…", help="One file of scores, or several to compare; or folders of runs.")
]
Rule: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--rule",
        "-r",
        metavar="RULE",
        help="top-k:5, average-k:5, lac:0.1, aps:0.1, raps:0.1, mass:0.1, threshold:0.5, pas:0.1, risk-control:recall:0.1, "
        "per-label:f1, per-label:precision:0.9; then ,classwise ,interpolated:0.5 ,cap:10 ,floor:1. "
        "Or a file that --save-rule wrote. A run has one of its own.",
    ),
]
Rules: TypeAlias = Annotated[
    list[str] | None, typer.Option("--rule", "-r", metavar="RULE", help="As for sets; give it several times to compare rules.")
]
Calibration: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--calibration", "-c", metavar="FILE", help="Rows to fit the rule on (one file for each file of scores)."),
]
Split: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--split", metavar="SHARE", help="Fit the rule on this share of the rows, drawn at random; answer for the rest."
    ),
]
Seed: TypeAlias = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="For --split and for randomised rules.")]
SameRows: TypeAlias = Annotated[
    bool, typer.Option("--same-rows", help="Fit and answer on the same rows, knowing that errors then look smaller.")
]
Link: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--link",
        "-l",
        metavar="LINK",
        help="How scores read as probabilities: softmax, sigmoid, identity (they are probabilities), spa, "
        "focal-recovery:GAMMA_POS:GAMMA_NEG:SHIFT, none.",
    ),
]
ScoresKey: TypeAlias = Annotated[
    str | None,
    typer.Option("--scores-key", metavar="NAME", help="Array or column of the scores; prob_* takes one column a class."),
]
TargetKey: TypeAlias = Annotated[
    str | None, typer.Option("--target-key", metavar="NAME", help="Array or column of the labels.")
]
IdsKey: TypeAlias = Annotated[
    str | None, typer.Option("--ids-key", metavar="NAME", help="Array or column that names the rows; id unless given.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Csv: TypeAlias = Annotated[bool, typer.Option("--csv", help="CSV on standard output.")]
Strict: TypeAlias = Annotated[bool, typer.Option("--strict", help="Exit with 3 if there was a warning.")]
NetworkPath: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="MODULE:FUNCTION",
        help="A network of your own: a function, called with classes= (and inputs= if it takes it), that returns a torch "
        "module. Modules in the current folder are found.",
    ),
]
