"""A classifier as one folder: weights, configuration, class names and a model card. Reading it runs no code from it.

The configuration holds digests: one bit that changes on the disk would give other sets without a word. That of the card only
tells whether a person edited it, who finds it beside the next one.
"""

import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shortlist.errors import InputError, ShortlistWarning
from shortlist.files import folder_replaced_whole, folder_written_whole, folders_left_aside, locked_place, without_links
from shortlist.links import link_from_config
from shortlist.models.classifier import Classifier
from shortlist.models.edited_cards import digest_of_card, edited_cards, is_old_card
from shortlist.models.factories import GivenNetwork
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.models.replaced import again_if_replaced
from shortlist.models.saved_networks import fill, given_network, named_network, needs_network
from shortlist.sets import SetRule, rule_from_record
from shortlist.tensors import digest_of
from shortlist.versions import version_of
from shortlist.words import printable, shown

FORMAT = "shortlist-classifier/1"
FAMILY = FORMAT.split("/")[0]
WEIGHTS, CONFIG, CLASSES, CARD = "model.safetensors", "config.json", "classes.json", "README.md"
OWN_FILES = (WEIGHTS, CONFIG, CLASSES, CARD)
OF_RUN, RUN_RECORD = "classifier", "recipe.json"  # what a run calls its classifier, and the file beside it
PARTS = ("network", "link", "rule")
# In the configuration: of each part's tensors, of the class names, of the rest of the configuration and of the card.
DIGESTS = "digests"
PATIENCE = 60.0  # seconds to wait for another process that saves a classifier to the same folder
NEEDED = ("backbone", "head", "inputs", "classes", "single_label", "link", "rule", "tensors")


def save(classifier: Classifier, path: str | Path) -> None:
    """Write the classifier's folder, whole or not at all; a folder that holds a classifier is replaced.

    A model card there that was edited is kept beside the new one, as ``README.old.md``. Processes wait for each other.
    """
    path = without_links(path)
    with locked_place(path, PATIENCE):
        edited = _replace(path, classifier)
    if edited is not None:
        warnings.warn(
            f"{printable(str(path / CARD))} had been edited: it is kept beside the new model card, as {edited}",
            ShortlistWarning,
            stacklevel=2,
        )


def _replace(path: Path, classifier: Classifier) -> str | None:
    """Write the folder; the name of a card that was edited, which is kept in it."""
    from shortlist.models.card import model_card

    _check_place(path)
    tensors = _tensors(classifier)
    card = model_card(classifier)
    record = _config(classifier, tensors)
    record[DIGESTS][CARD] = digest_of_card(card.encode())
    config = [f"{json.dumps(name)}: {_json(value)}" for name, value in record.items()]
    texts = {CONFIG: "{\n  " + ",\n  ".join(config) + "\n}\n", CLASSES: _json(list(classifier.classes), indent=0) + "\n"}
    texts[CARD] = card
    if not (path.is_dir() and any(path.iterdir())):
        _write(path, texts, tensors)
        return None
    old_cards, edited = edited_cards(path, CARD, card, _known_card(path))
    with folder_replaced_whole(path) as new:
        _write(new, texts, tensors)
        for name, content in old_cards.items():
            (new / name).write_bytes(content)
    return edited


def _known_card(path: Path) -> str | None:
    """The digest of the card as it was written, if the folder has one."""
    try:
        digests = _read_json(path / CONFIG).get(DIGESTS)
    except (InputError, AttributeError):
        return None
    known = digests.get(CARD) if isinstance(digests, dict) else None
    return known if isinstance(known, str) else None


def holds(path: str | Path, classifier: Classifier) -> bool:
    """Whether a folder that is not damaged holds this very classifier; its model card may differ."""
    try:
        there = _read_json(Path(path) / CONFIG)
    except InputError:
        return False
    if isinstance(there, dict) and isinstance(there.get(DIGESTS), dict):
        there[DIGESTS].pop(CARD, None)
    return bool(there == json.loads(json.dumps(_config(classifier, _tensors(classifier)))))


def is_own(path: Path) -> bool:
    """Whether what is at this path, or may be written there, in the folder of a classifier is part of it; folders never are."""
    return (path.name in OWN_FILES or is_old_card(path.name)) and not path.is_dir()


def check_outside_run(path: str | Path) -> None:
    """Raise an error if this is the folder of a run's classifier: the run would no longer know it as its own."""
    for place in (Path(path).absolute(), without_links(path)):
        if place.name == OF_RUN and (place.parent / RUN_RECORD).is_file():
            raise InputError(f"{path} is part of the run in {place.parent}, which only training writes: choose another name")


def _write(path: Path, texts: dict[str, str], tensors: dict[str, Tensor]) -> None:
    with folder_written_whole(path) as folder:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        try:
            save_file(tensors, folder / WEIGHTS, metadata={"format": FORMAT})
        except SafetensorError as error:  # most often a full disk
            raise InputError(f"cannot write {path}: {error}") from error
        (folder / WEIGHTS).chmod((folder / CONFIG).stat().st_mode)  # safetensors writes files that only the user can read


@again_if_replaced
def load(path: str | Path, device: str | torch.device = "cpu", given: GivenNetwork | None = None) -> Classifier:
    """The classifier that :func:`save` wrote; ``given`` is its network, where that was written elsewhere."""
    path = Path(path)
    config = _read_config(path)
    if given is None and config.get("foreign"):
        raise needs_network(path, config)
    classes = _read_json(path / CLASSES)
    _check_digest(path, config, CLASSES, _digest(classes))
    number = config["classes"]
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise InputError(f"{path / CLASSES}: expected a list of names")
    if len(classes) != number:
        raise InputError(f"{path / CLASSES}: expected {number} names, as {CONFIG} says, got {len(classes)}")
    tensors = _read_tensors(path, config, PARTS)
    with _damage_named(path):
        inputs = InputSpec.from_record(config["inputs"])
        network = None if given is not None else named_network(config, inputs)
    if given is not None:  # its errors are not those of the file
        network = given_network(config, inputs, given)
    assert network is not None
    with _damage_named(path):
        classifier = _build(path, config, classes, tensors, network)
    return _moved(classifier.eval(), device)


@again_if_replaced
def load_rule(path: str | Path) -> SetRule | None:
    """The rule of a saved classifier, fitted; the network is neither needed nor built."""
    path = Path(path)
    config = _read_config(path)
    if config["rule"] is None:
        return None
    tensors = _read_tensors(path, config, ("rule",))
    with _damage_named(path):
        return rule_from_record(config["rule"], _below(tensors, "rule."))


def load_about(path: str | Path) -> dict[str, Any]:
    """The facts for the model card of a saved classifier; the network is neither needed nor built."""
    about: dict[str, Any] = _read_config(Path(path)).get("about") or {}
    return about


def load_inputs(path: str | Path) -> InputSpec:
    """What the network of a saved classifier reads; the network is neither needed nor built."""
    path = Path(path)
    config = _read_config(path)
    with _damage_named(path):
        return InputSpec.from_record(config["inputs"])


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Errors inside as sentences that name the folder."""
    try:
        yield
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(str(path)) else f"{path}: {text}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise InputError(f"{path / CONFIG}: the file is damaged ({_one_line(error)})") from error


def is_classifier(path: str | Path) -> bool:
    """Whether this folder holds a classifier, of this version or another."""
    try:
        config = json.loads((Path(path) / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and str(config.get("format", "")).split("/")[0] == FAMILY


def _check_place(path: Path) -> None:
    """Refuse to replace anything but a classifier."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not path.is_dir():
        raise InputError(f"cannot write {path}: expected a folder, got a file")
    if not is_classifier(path):
        raise InputError(f"cannot write {path}: expected a new or empty folder or one that holds a classifier, got other files")
    others = sorted(entry for entry in path.iterdir() if not is_own(entry))
    if others:
        name = f"{'the folder ' if others[0].is_dir() else ''}{printable(others[0].name)}"
        raise InputError(
            f"cannot replace the classifier in {path}: it holds {name} beside it: move that away, or choose another folder"
        )


def _tensors(classifier: Classifier) -> dict[str, Tensor]:
    """Weights in float32; the numbers of link and rule in the precision that they were fitted in."""
    if classifier.link is not None:
        with torch.no_grad():  # raises if it has not been fitted
            classifier.link.probs(torch.zeros(1, len(classifier.classes), device=classifier.device))
    found: dict[str, Tensor] = {}
    for part in PARTS:
        module = getattr(classifier, part)
        for name, tensor in module.state_dict().items() if module is not None else ():
            if not isinstance(tensor, Tensor):
                raise InputError(f"cannot save the classifier: expected tensors, got {type(tensor).__name__} in {part}.{name}")
            dtype = torch.float32 if part == "network" and tensor.is_floating_point() else tensor.dtype
            # A contiguous copy of each: the format has neither shared memory nor other strides.
            found[f"{part}.{name}"] = tensor.detach().to("cpu", dtype).clone(memory_format=torch.contiguous_format)
    _check_weights(found, "cannot save the classifier", foreign=bool(classifier.network.foreign))
    return found


def _config(classifier: Classifier, tensors: dict[str, Tensor]) -> dict[str, Any]:
    network, counts = classifier.network, classifier.train_counts
    optional = {"foreign": list(network.foreign), "factory": network.factory, "superclasses": classifier.superclasses}
    if network.scored_head != "labels":
        optional["scored_head"] = network.scored_head
    record = {
        "format": FORMAT,
        "backbone": network.backbone_name,
        "head": network.head_kind,
        "inputs": network.inputs.record(),
        "classes": len(classifier.classes),
        "single_label": classifier.single_label,
        "link": None if classifier.link is None else classifier.link.config(),
        "rule": None if classifier.rule is None else classifier.rule.record(),
        "train_counts": None if counts is None else counts.tolist(),
        "about": classifier.about,
        "versions": {name: version_of(name) for name in ("shortlist", "torch")},
        "tensors": sorted(tensors),  # those of link and rule exist only after a fit: a file without them must not pass
    } | {name: value for name, value in optional.items() if value}
    parts = {part: digest_of(_below(tensors, f"{part}.")) for part in PARTS}
    names = {CLASSES: _digest(list(classifier.classes)), CONFIG: _digest_of_config(record)}
    return record | {DIGESTS: parts | names}


def _json(value: Any, indent: int | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # file names that were not UTF-8 hold lone surrogates, which need escapes
        text = json.dumps(value, indent=indent, allow_nan=False)
    return text


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        wrong = "expected the folder of a classifier, got a file" if path.exists() else "there is no such folder"
        raise InputError(f"{printable(str(path))}: {wrong}{_interrupted(path)}")
    if not (path / CONFIG).is_file() and is_classifier(path / "classifier"):
        raise InputError(f"{path}: expected the folder of a classifier, got that of a run: load {path / 'classifier'}")
    missing = [name for name in (CONFIG, CLASSES, WEIGHTS) if not (path / name).is_file()]
    if missing:
        raise InputError(
            f"{path}: expected the folder of a classifier, with {CONFIG}, {CLASSES} and {WEIGHTS}; {missing[0]} is missing"
        )
    config = _read_json(path / CONFIG)
    if not isinstance(config, dict) or str(config.get("format", "")).split("/")[0] != FAMILY:
        raise InputError(f"{path / CONFIG}: it was not written by Classifier.save")
    if config["format"] != FORMAT:
        raise InputError(
            f"{path / CONFIG}: expected the format {FORMAT}, got {config['format']}: it needs the version of shortlist that "
            f"wrote it, {(config.get('versions') or {}).get('shortlist', 'unknown')}"
        )
    absent = [name for name in NEEDED if name not in config]
    if absent:
        raise InputError(f"{path / CONFIG}: the file is damaged, {absent[0]!r} is missing")
    _check_digest(path, config, CONFIG, _digest_of_config(config))
    return config


def _digest(value: Any) -> str:
    """Digest of a JSON value, however it is laid out."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _digest_of_config(config: dict[str, Any]) -> str:
    """Digest of a configuration, but for its digests."""
    return _digest(json.loads(json.dumps({name: value for name, value in config.items() if name != DIGESTS})))


def _check_digest(path: Path, config: dict[str, Any], part: str, found: str) -> None:
    """Raise an error if a file, or a part of the weights, is not as it was saved; earlier versions wrote no digests."""
    if DIGESTS not in config:
        return
    known = config[DIGESTS]
    if not isinstance(known, dict) or known.get(part) != found:
        name, what = (WEIGHTS, f"the numbers of its {part} are") if part in PARTS else (part, "its content is")
        raise InputError(
            f"{path / name}: {what} not what was saved: the file is damaged or was edited: put back the one that was saved, or "
            f"remove {DIGESTS!r} from {CONFIG} to use it as it is"
        )


def _interrupted(path: Path) -> str:
    """Where the classifier is, if the process died at the worst moment while it was being replaced."""
    left = [printable(str(folder)) for folder in folders_left_aside(path) if is_classifier(folder)]
    name = printable(path.name)
    return f": it was being replaced, and the one before is {' or '.join(left)}: rename that to {name}" if left else ""


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected JSON: {error}") from error


def _read_tensors(folder: Path, config: dict[str, Any], checked: Sequence[str]) -> dict[str, Tensor]:
    """All tensors; those of the parts that are to be checked are as they were saved."""
    path, wanted = folder / WEIGHTS, config["tensors"]
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: the file is damaged or cut short ({error})") from error
    listed = wanted if isinstance(wanted, list) else []
    missing = next((name for name in listed if not isinstance(name, str) or name not in tensors), None)
    if missing is not None:
        name = missing if isinstance(missing, str) else shown(missing)
        raise InputError(f"{path}: expected the tensors that {CONFIG} lists; {name} is missing")
    for part in checked if DIGESTS in config else ():
        _check_digest(folder, config, part, digest_of(_below(tensors, f"{part}.")))
    _check_weights(tensors, f"{path}", foreign=bool(config.get("foreign")))
    return tensors


def _check_weights(tensors: dict[str, Tensor], where: str, *, foreign: bool) -> None:
    """Refuse weights that are NaN or infinite.

    A threshold may be infinite, where every label passes, and so may the masks of a network that was written elsewhere.
    """
    for name, tensor in tensors.items():
        threshold = name == "rule.threshold"
        if (threshold or name.startswith("network.")) and tensor.is_floating_point():
            wrong = tensor.isnan() if threshold or foreign else ~tensor.isfinite()
            if wrong.any():
                raise InputError(f"{where}: expected finite numbers in {name}, got {tensor[wrong].flatten()[0].item()}")


def _build(path: Path, config: dict[str, Any], classes: list[str], tensors: dict[str, Tensor], network: Network) -> Classifier:
    parts = {part: _below(tensors, f"{part}.") for part in PARTS}
    unknown = next((name for name in tensors if name.split(".")[0] not in PARTS), None)
    if unknown is not None:
        raise InputError(f"{path / WEIGHTS}: expected tensors of network, link and rule, got {unknown}")
    fill(network, parts["network"], path / WEIGHTS)
    link = None if config["link"] is None else link_from_config(config["link"], parts["link"])
    if link is not None:
        with torch.no_grad():
            link.probs(torch.zeros(1, len(classes)))  # raises if its tensors do not go together
    counts = config.get("train_counts")
    return Classifier(
        network.with_head(config.get("scored_head", "labels")),
        classes,
        link=link,
        rule=None if config["rule"] is None else rule_from_record(config["rule"], parts["rule"]),
        train_counts=None if counts is None else torch.tensor(counts),
        superclasses=config.get("superclasses"),
        about=config.get("about") or {},
        single_label=config["single_label"],
    )


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _moved(classifier: Classifier, device: str | torch.device) -> Classifier:
    try:
        return classifier.to(device)
    except (RuntimeError, AssertionError) as error:  # an unknown name, or a missing GPU
        raise InputError(f"device: cannot move the classifier to {device}: {_one_line(error)}") from error
