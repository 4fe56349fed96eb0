"""``shortlist predict``: the options. What it does is in ``predicting.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in

ClassifierPath = Annotated[Path, typer.Argument(metavar="CLASSIFIER", help="The folder of a classifier, or of its run.")]
PICTURES = (
    "Picture files and folders of pictures; or a table (.csv, .tsv, .parquet, .npz), with or without labels; or a dataset, "
    "NAME:PATH, such as folders:leaves; or an address of pictures or of Parquet files that hold them, such as s3://bucket/leaves."
)
OUT = (
    "Write the sets to a .jsonl or .csv file, or the scores to a .safetensors, .npz or .parquet file, for shortlist sets, "
    "evaluate and report; or, by a name without an ending, to a folder of parts, which the same command continues if it was "
    "stopped. By default the first ten sets are printed."
)
HeadOption = Annotated[
    str | None,
    typer.Option(
        "--head",
        metavar="HEAD",
        help="For a two-head classifier (average-k): labels, or proposal, whose softmax gives consistent probabilities.",
    ),
]
QUALITY = (
    "Write the quality of each row beside its scores: sharpness, that of pictures, for gate:0.95:sharpness. A classifier with "
    "such a rule does it by default."
)
RULE = (
    "Another rule than that of the classifier, as for `sets`: top-k:3, threshold:0.5, a file written with --save-rule; lac:0.1 "
    "and others that need a fit are fitted on the calibration rows of a run."
)
ROWS_PER_PART = "Number of rows in each part of a folder of scores; by default as many as make 64 MB, from 256 to 16,384."
HTML = "Write a page with a card for each picture (the first 200): the picture, and its set with probabilities."
SPLIT = "The split to classify; by default the test split of a dataset, and all rows of a table."


@written_in("predicting")
def predict(
    classifier: ClassifierPath,
    pictures: Annotated[list[str], typer.Argument(metavar="PICTURES…", help=PICTURES)],
    out: Annotated[Path | None, typer.Option("--out", "-o", help=OUT)] = None,
    rule: Annotated[str | None, typer.Option("--rule", "-r", metavar="RULE", help=RULE)] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help=HTML)] = None,
    split: Annotated[str | None, typer.Option("--split", metavar="NAME", help=SPLIT)] = None,
    head: HeadOption = None,
    network: options.NetworkPath = None,
    device: Annotated[str, typer.Option("--device", help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Number of pictures per batch.")] = 256,
    quality: Annotated[str | None, typer.Option("--quality", metavar="NAME", help=QUALITY)] = None,
    rows_per_part: Annotated[int | None, typer.Option("--rows-per-part", min=1, metavar="N", help=ROWS_PER_PART)] = None,
    engine: options.EngineName = "local",
    address: options.Address = None,
    workers: options.Workers = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON lines to standard output.")] = False,
) -> None:
    """Predict sets of labels for new pictures or rows, or write their scores."""
