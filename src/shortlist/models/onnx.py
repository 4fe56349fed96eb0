"""A classifier as one ONNX file: raw pictures or features in, scores, probabilities and sets out."""

import importlib
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.files import without_links, work_folder, written_whole
from shortlist.models.classifier import Classifier
from shortlist.models.graph import Graph
from shortlist.models.input_spec import InputSpec
from shortlist.predictions.stored import QUALITY
from shortlist.words import printable

FORMAT = "shortlist-onnx/1"
MOST_BYTES = 2**31 - 2**24  # a protobuf file ends at 2 GiB: the weights, and room for the rest
NEEDED = ("onnx", "onnxscript")
# Warnings of torch's exporter: about its own code, and that an axis which inputs share has one name.
CHATTER = (r".*isinstance\(treespec, LeafSpec\)", r".*The axis name: batch will not be used")
CHATTERERS = ("torch.onnx", "onnxscript")
OLDEST_OPSET = 18  # of the exporter


def export_onnx(classifier: Classifier, path: str | Path, *, opset: int | None = None) -> None:
    """Write one graph from raw inputs to sets, for any number of rows at once.

    Input ``images`` uint8 (batch, 3, size, size), or ``features`` float32 (batch, D). Outputs ``scores`` float32 (batch, C);
    ``probs`` float32 (batch, C), where the classifier has a link; ``sets`` bool (batch, C), where it has a rule. Inputs are
    standardised inside the graph; resizing pictures is left to the caller. A rule with a gate by quality adds the input
    ``quality`` float64 (batch,); sharpness is computed inside the graph. Class names, how to prepare pictures, link, rule and
    guarantee are in the metadata of the file, under ``shortlist.*``, as JSON.

    Scores agree with torch's up to rounding, so a set may differ where a label lies within rounding of the threshold. Where
    many labels do, as with ``aps`` and ``raps`` on a classifier so confident that its threshold is almost 1, many sets may.

    Weights beyond 2 GB, which the format cannot hold, go to a second file of the same name followed by ``.data``.

    Args:
        classifier: exported in float32, whatever its device and precision.
        path: the file, such as ``leaves.onnx``.
        opset: version of the ONNX operators, from 18; torch's choice by default.
    """
    _check_packages()
    path = without_links(path)
    if path.is_dir():  # refused before the work rather than after
        raise InputError(f"cannot write {printable(str(path))}: it is a folder")
    opset = None if opset is None else _checked_opset(opset)
    graph, inputs = Graph(classifier), classifier.inputs
    try:
        program = translated(graph, _example(graph, inputs), graph.outputs, opset)
    except Exception as error:  # torch's exporter can fail in many ways on an unusual network
        reason = " ".join(str(_first_cause(error)).split())[:200]
        raise InputError(f"cannot export {classifier.network.backbone_name} to ONNX: {reason}") from error
    reached = program.model.opset_imports[""]
    if opset is not None and reached != opset:  # the exporter keeps what it has where it cannot go further
        raise InputError(f"opset: expected a version that this torch and onnx can write, such as {reached}, got {opset}")
    program.model.metadata_props.update(_metadata(classifier))
    program.model.producer_name = "shortlist"
    if sum(tensor.numel() * tensor.element_size() for tensor in graph.state_dict().values()) < MOST_BYTES:
        with written_whole(path) as temporary, _quiet():
            program.save(str(temporary), external_data=False)
    else:
        _save_in_two(program, path)


def _check_packages() -> None:
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except (ImportError, RuntimeError) as error:
            raise InputError(f"export to ONNX needs {name}: pip install 'shortlist[onnx]'") from error


def _checked_opset(opset: int) -> int:
    """A version that the installed onnx knows; checked before the work rather than after."""
    from onnx.defs import onnx_opset_version

    opset, newest = whole(OLDEST_OPSET)("opset", opset), onnx_opset_version()
    if opset > newest:
        raise InputError(
            f"opset: expected a whole number from {OLDEST_OPSET} to {newest}, the newest that onnx has, got {opset}"
        )
    return opset


def _example(graph: Graph, inputs: InputSpec) -> dict[str, Tensor]:
    """A small batch for each input of the graph, by name."""
    batch = inputs.example()
    given = {"images" if inputs.is_pictures else "features": batch}
    return given | ({QUALITY: torch.zeros(len(batch), dtype=torch.float64)} if graph.takes_quality else {})


def translated(graph: nn.Module, examples: dict[str, Tensor], outputs: list[str], opset: int | None = None) -> Any:
    """The ONNX program of a module, for any number of rows; that axis is called ``batch``.

    Args:
        graph: called with the examples in their order.
        examples: a batch for each input, by the name of the input.
        outputs: the names of what it returns.
        opset: version of the ONNX operators.
    """
    batch = torch.export.Dim("batch")
    axes = tuple({0: batch} for _ in examples)
    with _quiet(), torch.no_grad():
        exported = torch.export.export(graph, tuple(examples.values()), dynamic_shapes=axes, strict=False)
        exported = exported.run_decompositions(torch.export.default_decompositions() | {torch.ops.aten.sort.stable: _sort})
        return torch.onnx.export(
            exported,
            (),
            dynamo=True,
            verbose=False,
            input_names=list(examples),
            output_names=outputs,
            opset_version=opset,
            dynamic_shapes=axes,  # again, for their names: the exported program has numbered them
        )


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _sort(values: Tensor, *, stable: bool, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """A stable sort by TopK, which in ONNX, unlike in torch, is bound to put the lower index first among equals."""
    return torch.topk(values, values.shape[dim], dim, descending, True)


def _metadata(classifier: Classifier) -> dict[str, str]:
    link, rule = classifier.link, classifier.rule
    told = {
        "format": FORMAT,
        "classes": list(classifier.classes),
        "backbone": classifier.network.backbone_name,
        "inputs": classifier.inputs.record(),
        "single_label": classifier.single_label,
        "link": None if link is None else repr(link),
        "rule": None if rule is None else rule.text,
        "guarantee": None if rule is None else rule.guarantee,
    }
    if classifier.network.scored_head != "labels":
        told["scored_head"] = classifier.network.scored_head
    if classifier.inputs.is_pictures:
        told["preparation"] = classifier.inputs.preparation
    if classifier.superclasses is not None:
        told["superclasses"] = list(classifier.superclasses)
    return {f"shortlist.{name}": json.dumps(value) for name, value in told.items()}


def _save_in_two(program: Any, path: Path) -> None:
    """Graph and weights in two files; the weights are moved first, since nothing reads them without the graph."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with work_folder(path) as folder:
        with _quiet():
            program.save(str(folder / path.name), external_data=True)
        for name in (f"{path.name}.data", path.name):
            (folder / name).replace(path.parent / name)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's messages to its own developers; all others get through."""
    loggers = [logging.getLogger(name) for name in CHATTERERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for message in CHATTER:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
