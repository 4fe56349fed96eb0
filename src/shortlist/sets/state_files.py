"""What goes on with a rule, as a file: the rule, numbers as JSON and tensors, in one safetensors file that is written whole.

Its header holds a digest of everything in it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shortlist.errors import InputError
from shortlist.files import order_header, written_whole
from shortlist.sets.rule import SetRule
from shortlist.sets.storage import rule_from_record
from shortlist.tensors import is_as_sealed, sealed
from shortlist.words import shown

RULE = "rule."  # before the names of the rule's tensors


def write_state(rule: SetRule, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor], path: str | Path, kind: str) -> None:
    """Write the rule with these numbers and tensors.

    Args:
        rule: fitted or not.
        numbers: what JSON can hold.
        tensors: by name.
        path: the file.
        kind: the format with its version, such as ``shortlist-stream/1``.
    """
    own = {RULE + name: tensor for name, tensor in rule.state_dict().items()}
    written = {name: tensor.cpu().contiguous() for name, tensor in {**own, **tensors}.items()}
    header = {"format": kind, "rule": json.dumps(rule.record(), allow_nan=False), "state": json.dumps(numbers)}
    with written_whole(path) as temporary:
        try:
            save_file(written, temporary, metadata=sealed(header, written))
            order_header(temporary)
        except SafetensorError as error:  # a full disk, most likely
            raise InputError(f"cannot write {path}: {error}") from error


def read_state(path: str | Path, kind: str) -> tuple[SetRule, Mapping[str, Any], dict[str, Tensor]]:
    """The rule, the numbers and the tensors that were written; an error if anything in the file has changed since."""
    with safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if header.get("format") != kind:
        raise InputError(f"expected the format {kind}, got {shown(header.get('format'))}")
    if not is_as_sealed(header, tensors):
        raise InputError(
            "it is damaged or was edited (its content is not what was saved): put back a copy, or begin again in a new file"
        )
    numbers = json.loads(header["state"])
    own = {name.removeprefix(RULE): tensor for name, tensor in tensors.items() if name.startswith(RULE)}
    return rule_from_record(json.loads(header["rule"]), own), numbers, tensors


@contextmanager
def damage_named(path: str | Path, what: str) -> Iterator[None]:
    """Around reading: any error becomes a sentence about the file."""
    try:
        yield
    except KeyError as error:
        raise InputError(f"cannot read a {what} from {path}: the file is damaged, {error} is missing") from error
    except (InputError, SafetensorError, OSError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise InputError(f"cannot read a {what} from {path}: {' '.join(str(error).split())}") from error
