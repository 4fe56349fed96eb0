"""``shortlist export``: the options. What it does is in ``exporting.py``, imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli import options
from shortlist.cli.commands import written_in
from shortlist.cli.predict import ClassifierPath, HeadOption


@written_in("exporting")
def export(
    classifier: ClassifierPath,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, such as model.onnx.")],
    head: HeadOption = None,
    network: options.NetworkPath = None,
    opset: Annotated[int | None, typer.Option("--opset", metavar="N", help="Version of the ONNX operator set.")] = None,
) -> None:
    """Export a classifier as an ONNX file, from raw pixels or features to sets, for use without torch.

    In Python: onnxruntime.InferenceSession("model.onnx").run(["sets"], {"images": pixels}).

    Pixels are uint8 (N, 3, size, size), prepared as the command prints; a classifier of features takes
    {"features": numbers}, float32 (N, D). Class names, and how to prepare pictures, are in the metadata, as JSON.
    """
