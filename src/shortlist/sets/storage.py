"""A rule as a record and tensors, and as one file: nothing in it is executed when it is read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shortlist.checks import whole
from shortlist.errors import InputError
from shortlist.files import order_header, written_whole
from shortlist.sets.constraints import Constraint, check_threshold
from shortlist.sets.gates import Gate
from shortlist.sets.groups import Groups
from shortlist.sets.orderings import Ordering
from shortlist.sets.prefixes import CumulativeMass
from shortlist.sets.registry import DETERMINISTIC
from shortlist.sets.rule import SetRule
from shortlist.sets.sizes import SizeSummary
from shortlist.sets.weighting import Weighting
from shortlist.tensors import is_as_sealed, sealed, shape_of
from shortlist.words import listed, shown

FORMAT = "shortlist-rule/2"
FAMILY = FORMAT.split("/")[0]
FIELDS = ("text", "ordering", "constraint", "least", "most", "tensors", "notes", "origin", "calibrated")


def rule_from_record(record: Any, tensors: Mapping[str, Tensor]) -> SetRule:
    """The rule with this record and these tensors; damaged values are refused.

    The classes of its ordering and constraint are found by their kinds: a module that defines kinds of its own must have been
    imported.

    Args:
        record: what :meth:`SetRule.record` returned.
        tensors: its state dict.

    >>> from shortlist.sets import lac
    >>> rule = lac(0.5).fit([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1])
    >>> rule_from_record(rule.record(), rule.state_dict())
    SetRule(lac:0.5, threshold 0.8)
    """
    if not isinstance(record, Mapping):
        raise InputError(f"rule: expected a record, got {shown(record)}")
    missing = [name for name in FIELDS if name not in record]
    if missing:
        raise InputError(f"rule: the record is damaged, {missing[0]!r} is missing")
    text = record["text"]
    if not isinstance(text, str) or not text:
        raise InputError(f"rule: expected its text, got {shown(text)}")
    try:
        rule = _built(record, text)
        rule.text = _as_written_now(text, rule)
        _fill(rule, record["tensors"], tensors)
        rule.notes, rule.origin = _notes(record["notes"]), _origin(record["origin"])
        rule.calibrated = None if record["calibrated"] is None else SizeSummary.from_record(record["calibrated"])
        if rule.threshold is not None:
            classes, by_class = None if rule.origin is None else rule.origin["classes"], rule.weighting.kind == "classes"
            check_threshold(rule.threshold, rule.constraint, classes, by_class=by_class)
        rule.fitted_labels = _counts("labels", record.get("labels"), rule.threshold)
        rule.fitted_ties = _counts("tied", record.get("tied"), rule.threshold, least=-1)
    except InputError as error:
        raise InputError(f"rule {text}: {error}") from error
    except (TypeError, ValueError, KeyError, RuntimeError) as error:
        raise InputError(f"rule {text}: the record is damaged ({' '.join(str(error).split())})") from error
    return rule


def _built(record: Mapping[str, Any], text: str) -> SetRule:
    least, most = whole(0)("least", record["least"]), record["most"]
    most = None if most is None else whole(0)("most", most)
    ordering, constraint = Ordering.from_config(record["ordering"]), Constraint.from_config(record["constraint"])
    rule = SetRule(text, ordering, constraint, least, most, _gate(record.get("gate")), _groups(record.get("groups")))
    rule.weighting = Weighting(record.get("weighting"))
    return rule


def _as_written_now(text: str, rule: SetRule) -> str:
    """The text of an APS rule that was saved when its calibration was not randomised unless ``:random`` asked for it."""
    first, *modifiers = text.split(",")
    plain = type(rule.ordering) is CumulativeMass and rule.ordering.row_draws() is None
    if not plain or not first.startswith(("aps:", "raps:")) or first.endswith(f":{DETERMINISTIC}"):
        return text
    return ",".join([f"{first}:{DETERMINISTIC}", *modifiers])


def _gate(config: Any) -> Gate | None:
    if config is None:
        return None
    if not isinstance(config, Mapping) or set(config) != {"refuse", "by"}:
        raise InputError(f"gate: expected the parameters refuse and by, got {shown(config)}")
    return Gate(config["refuse"], config["by"])


def _groups(config: Any) -> Groups | None:
    if config is None:
        return None
    if not isinstance(config, Mapping) or not {"column", "least"} <= set(config) <= {"column", "least", "shrink"}:
        raise InputError(f"groups: expected the parameters column, least and shrink, got {shown(config)}")
    return Groups(config["column"], config["least"], config.get("shrink"))  # a file from before there was shrinkage lacks it


def _fill(rule: SetRule, names: Any, tensors: Mapping[str, Tensor]) -> None:
    """Put the tensors into the rule; they must be those that the record lists."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"tensors: expected a list of names, got {shown(names)}")
    if sorted(tensors) != sorted(names):
        raise InputError(f"expected the tensors {listed(names) or 'none'}, got {listed(sorted(tensors)) or 'none'}")
    for name, old in rule.state_dict().items():
        if name not in tensors:
            raise InputError(f"expected the tensor {name}, {shape_of(old)}, which is missing")
    unknown = rule.load_state_dict(dict(tensors), strict=False).unexpected_keys
    if unknown:
        raise InputError(f"expected no tensors but its own, got {listed(unknown)}")
    rule.ordering.check_buffers()
    _check_kept(rule.kept, rule.kept_labels, rule.kept_groups)
    if rule.gate is not None:
        rule.gate.check_threshold()
    rule.weighting.check_buffers()
    if rule.groups is not None:
        rule.groups.check_buffers(rule.threshold)


def _check_kept(values: Tensor | None, labels: Tensor | None, groups: Tensor | None) -> None:
    """Raise an error unless these can be the values of calibration rows, in order, and what they belong to."""
    if values is not None and (values.dtype != torch.float64 or values.ndim != 1 or not bool((values.diff() >= 0).all())):
        raise InputError(f"kept: expected float64 (n,) in increasing order, got {shape_of(values)}")
    for name, part in (("kept_labels", labels), ("kept_groups", groups)):
        if part is not None and (values is None or part.dtype != torch.int64 or part.shape != values.shape):
            raise InputError(f"{name}: expected int64, one for each value, got {shape_of(part)}")


def _notes(notes: Any) -> tuple[str, ...]:
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise InputError(f"notes: expected a list of sentences, got {shown(notes)}")
    return tuple(notes)


def _counts(name: str, counts: Any, threshold: Tensor | None, least: int = 0) -> Tensor | None:
    """The numbers of labels that each threshold was chosen on, or that tie with it; a record may lack them."""
    if counts is None:
        return None
    several = isinstance(counts, list)
    found = torch.tensor([whole(least)(name, count) for count in (counts if several else [counts])])
    if threshold is None or threshold.ndim != int(several) or (several and len(found) != len(threshold)):
        raise InputError(f"{name}: expected a number for each threshold, got {shown(counts)}")
    return found if several else found[0]


def _origin(origin: Any) -> dict[str, Any] | None:
    if origin is None:
        return None
    if not isinstance(origin, dict) or "classes" not in origin:
        raise InputError(f"origin: expected the number of classes and the link, got {shown(origin)}")
    whole(1)("origin: classes", origin["classes"])
    return origin


def save_rule(rule: SetRule, path: str | Path) -> None:
    """Write the rule as one safetensors file, whole or not at all.

    Its header holds a digest: one bit that changes on the disk would give other sets without a word.
    """
    state = {name: tensor.cpu().contiguous() for name, tensor in rule.state_dict().items()}
    header = {"format": FORMAT, "rule": json.dumps(rule.record(), allow_nan=False)}
    with written_whole(path) as temporary:
        try:
            save_file(state, temporary, metadata=sealed(header, state))
            order_header(temporary)
        except SafetensorError as error:  # a full disk, most likely
            raise InputError(f"cannot write {path}: {error}") from error


def load_rule(path: str | Path) -> SetRule:
    """The rule that :func:`save_rule` wrote; an error if anything in the file has changed since."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors: dict[str, torch.Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"cannot read a rule from {path}: {error}") from error
    if header.get("format", "").split("/")[0] != FAMILY:
        raise InputError(f"cannot read a rule from {path}: it was not written by SetRule.save")
    if header["format"] != FORMAT:
        raise InputError(f"cannot read a rule from {path}: expected the format {FORMAT}, got {header['format']}: fit it again")
    if not is_as_sealed(header, tensors):
        raise InputError(
            f"cannot read a rule from {path}: it is damaged or was edited (its content is not what was saved): put back a "
            "copy, or fit the rule again"
        )
    try:
        record = json.loads(header["rule"])
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read a rule from {path}: the file is damaged ({error})") from error
    try:
        return rule_from_record(record, tensors)
    except InputError as error:
        raise InputError(f"cannot read a rule from {path}: {error}") from error
