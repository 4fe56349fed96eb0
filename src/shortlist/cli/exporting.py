"""What ``shortlist export`` does: a classifier as an ONNX file."""

from pathlib import Path

from shortlist.cli.console import say
from shortlist.cli.outputs import check_outputs
from shortlist.cli.predicting import load_classifier, of_head
from shortlist.errors import InputError
from shortlist.models import Classifier
from shortlist.models.graph import outputs_of, takes_quality

ONNX = ".onnx"


def export(
    classifier: Path,
    out: Path,
    head: str | None,
    network: str | None,
    opset: int | None,
) -> None:
    """Export a classifier as an ONNX file, from raw pixels or features to sets, for use without torch.

    In Python: onnxruntime.InferenceSession("model.onnx").run(["sets"], {"images": pixels}).

    Pixels are uint8 (N, 3, size, size), prepared as the command prints; a classifier of features takes
    {"features": numbers}, float32 (N, D). Class names, and how to prepare pictures, are in the metadata, as JSON.
    """
    if out.suffix != ONNX:
        raise InputError(f"--out: expected a name that ends in {ONNX}, got {out}")
    check_outputs([out], [classifier])
    model = of_head(load_classifier(classifier, network=network), head)
    model.export_onnx(out, opset=opset)
    inputs = model.inputs
    name, kind = ("images", "uint8") if inputs.is_pictures else ("features", "float32")
    quality = ", input quality float64 (batch)" if takes_quality(model) else ""
    say(f"{out}: input {name} {kind} (batch, {', '.join(map(str, inputs.shape))}){quality}; outputs {_outputs(model)}")
    if inputs.is_pictures:
        say(f"pictures must be prepared as in training: {inputs.preparation}")
    say("class names are in its metadata, as shortlist.classes; shortlist export --help shows how to run it")


def _outputs(model: Classifier) -> str:
    shape = f"(batch, {len(model.classes)})"
    return ", ".join(f"{name} {'bool' if name == 'sets' else 'float32'} {shape}" for name in outputs_of(model))
