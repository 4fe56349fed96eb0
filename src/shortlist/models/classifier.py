"""Classifier: network, link, rule and class names together; what is saved, exported and asked."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from shortlist.checks import check_finite, whole
from shortlist.errors import InputError
from shortlist.links import Link
from shortlist.models.answers import Answers
from shortlist.models.given import as_source
from shortlist.models.network import Network
from shortlist.models.scoring import raw_batches, scored_batches
from shortlist.predictions import Predictions
from shortlist.sets import SetRule, parse_rule
from shortlist.tensors import Scores, Sets, as_tensor, row_blocks

if TYPE_CHECKING:
    from shortlist.data.problems import Problem


class Classifier(nn.Module):
    """Pictures or features → sets of labels: a network, the link that reads its scores, and the rule that makes sets.

    The network, the link and the rule are shared with whoever made them, as modules are; ``.to(device)`` moves all three.

    Args:
        network: backbone and head.
        classes: the names of the classes, all different, in the order of the scores.
        link: how the scores read as probabilities; None: they do not.
        rule: a fitted rule; None where only scores and probabilities are wanted.
        train_counts: how many training examples each class had, (C,).
        about: what the model card tells: ``"data"``, ``"method"``, ``"numbers"``, ``"licence"`` and anything else that JSON
            can hold.
        single_label: whether each row was trained to have exactly one label.

    >>> from shortlist.links import Softmax
    >>> from shortlist.models.inputs import Inputs
    >>> from shortlist.sets import top_k
    >>> network = Network("features", "linear", Inputs("features", 2, mean=(0, 0), std=(1, 1)), classes=3)
    >>> classifier = Classifier(network, ["ash", "elm", "oak"], link=Softmax(), rule=top_k(2))
    >>> classifier.predict(torch.zeros(4, 2)).sets.sum(1)
    tensor([2, 2, 2, 2])
    """

    def __init__(
        self,
        network: Network,
        classes: Sequence[str],
        *,
        link: Link | None = None,
        rule: SetRule | None = None,
        train_counts: Any = None,
        about: Mapping[str, Any] | None = None,
        single_label: bool = True,
    ):
        super().__init__()
        if not isinstance(network, Network):
            raise InputError(f"network: expected a Network, got {type(network).__name__}")
        if isinstance(classes, str) or not isinstance(classes, Sequence):
            raise InputError(f"classes: expected a list of {network.num_classes} names, got {type(classes).__name__}")
        self.network, self.inputs = network, network.inputs
        self.classes = tuple(str(name) for name in classes)
        self.single_label = bool(single_label)
        self.train_counts = None if train_counts is None else as_tensor(train_counts, "train_counts").detach().cpu()
        self.about: dict[str, Any] = _plain(about or {})
        self.link = link
        self._check_link()
        self.rule = rule
        if rule is not None:
            self._check_rule(rule)

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    def scores(self, batch: Tensor) -> Scores:
        """What the network says, float32 (N, C), on its device; of two heads, the multi-label one.

        Args:
            batch: a raw batch: uint8 (N, 3, size, size), or features (N, D); it is standardised here.
        """
        with _evaluating(self.network), torch.inference_mode():
            scores = self._score(batch.to(self.device, non_blocking=True))
        return scores.clone()  # a tensor like any other, which outside of inference mode can be worked on further

    def _score(self, batch: Tensor) -> Scores:
        weight = next(self.network.parameters())
        return self.network.label_scores(self.inputs.prepare(batch).to(weight.dtype)).float()

    def score_batches(
        self,
        source: Any,
        *,
        batch_size: int = 256,
        workers: int | None = None,
        device: str | torch.device | None = None,
        problems: "list[Problem] | None" = None,
    ) -> Iterator[tuple[Tensor, Scores]]:
        """Row numbers int64 (n,) and scores float32 (n, C), a batch at a time, on the CPU; for any number of rows.

        Pictures are decoded by threads and copied to the device while it works on the batch before.

        Args:
            source: as in :meth:`predict`.
            batch_size: rows at once.
            workers: threads that decode; one for each core by default.
            device: move the classifier there first; by default it works where it is.
            problems: a list that pictures which cannot be read are added to, and remarks on unusual ones; the rows of the
                first are then left out. Without a list, one that cannot be read raises.
        """
        found, batch_size = as_source(source, self.inputs), whole(1)("batch_size", batch_size)
        if device is not None:
            self.to(device)
        return self._stream(raw_batches(found, self.inputs, batch_size, workers, problems))

    def _stream(self, batches: Iterator[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Scores]]:
        with _evaluating(self.network):
            yield from scored_batches(batches, self._score_quietly, self.device)

    def _score_quietly(self, batch: Tensor) -> Scores:
        # Entered batch by batch: a mode that is open over a yield would hold for whoever loops as well.
        with torch.inference_mode():
            return self._score(batch)

    def predict(self, images: Any, *, batch_size: int = 256, workers: int | None = None) -> Answers:
        """The set of labels of each picture, or of each row of features.

        Pictures of another size become squares by the very function that files are loaded with, so a picture answers the same
        from its file and from its pixels (large JPEG files, which are decoded at a smaller scale to save time, nearly so).

        Args:
            images: uint8 (N, 3, H, W) or (3, H, W); the path of a picture file, the bytes of one, a Pillow image, or a list of
                any of these; :class:`~shortlist.data.Pictures`; or, for a classifier of tables, features (N, D) or (D,).
            batch_size: rows at once.
            workers: threads that decode; one for each core by default.
        """
        if self.rule is None:
            raise InputError(
                "this classifier has no set rule: fit one on predictions for rows that it was not trained on, "
                'classifier.fit_rule("average-k:5", predictions), or take one that needs no fit, '
                'classifier.with_rule(parse_rule("top-k:5"))'
            )
        source = as_source(images, self.inputs)
        scores = torch.empty(len(source), len(self.classes))
        for rows, part in self.score_batches(source, batch_size=batch_size, workers=workers):
            scores[rows] = part
        check_finite(scores)
        probabilities, sets = self.decide(scores)
        ids = [str(row) for row in range(len(source))] if isinstance(source, Tensor) else list(source.ids)
        return Answers(scores, probabilities, sets, self.classes, ids, _on_cpu(self.link), self.train_counts)

    @torch.no_grad()
    def decide(self, scores: Scores) -> tuple[Tensor, Sets]:
        """Probabilities (N, C), or the scores where there is no link, and sets bool (N, C), both on the CPU."""
        if self.rule is None:
            raise InputError("this classifier has no set rule: give it one with with_rule(rule)")
        probabilities, sets = torch.empty(scores.shape), torch.empty(scores.shape, dtype=torch.bool)
        for rows in row_blocks(*scores.shape):
            part = scores[rows].to(self.device)
            probs = part if self.link is None else self.link.probs(part)
            probabilities[rows], sets[rows] = probs.cpu(), self.rule(probs).cpu()
        return probabilities, sets

    def predictions(self, source: Any, target: Any = None, *, batch_size: int = 256, workers: int | None = None) -> Predictions:
        """The scores of these rows as a record, with their labels where they are given: what links and rules are fitted on."""
        found = as_source(source, self.inputs)
        scores = torch.empty(len(found), len(self.classes))
        for rows, part in self.score_batches(found, batch_size=batch_size, workers=workers):
            scores[rows] = part
        ids = None if isinstance(found, Tensor) or len(set(found.ids)) < len(found) else found.ids
        return Predictions(scores, target, self.classes, _on_cpu(self.link), ids, self.train_counts)

    def with_link(self, link: Link | None) -> "Classifier":
        """The same network read by another link; a fitted rule, whose threshold belongs to the old link, is left behind."""
        rule = self.rule
        if rule is not None and not _same(link, self.link):
            rule = None if rule.needs_fit else _unmeasured(rule)
        return self._with(link, rule)

    def with_rule(self, rule: SetRule | None) -> "Classifier":
        """The same network and link with another rule, which must have been fitted on probabilities of this link."""
        return self._with(self.link, rule)

    def fit_rule(self, rule: SetRule | str, predictions: Predictions) -> "Classifier":
        """The same classifier with this rule, fitted on predictions of its own for rows that it was not trained on.

        The sizes of the sets on these rows are kept, ``rule.calibrated``: sets of other sizes tell that new rows are not alike.

        Args:
            rule: a rule or its text, such as ``"average-k:5"`` or ``"lac:0.1"``.
            predictions: scores of this classifier, with labels where the rule needs them; they are read by its link.
        """
        read = predictions.with_link(_on_cpu(self.link))
        chosen = parse_rule(rule, prior=lambda: read.prior) if isinstance(rule, str) else rule
        return self.with_rule(chosen.fit(read).to(self.device))

    def _with(self, link: Link | None, rule: SetRule | None) -> "Classifier":
        return Classifier(
            self.network,
            self.classes,
            link=link,
            rule=rule,
            train_counts=self.train_counts,
            # Numbers that were measured with another link or rule are not this classifier's.
            about={name: value for name, value in self.about.items() if name != "numbers"},
            single_label=self.single_label,
        )

    def save(self, path: str | Path) -> None:
        """Write the folder that :meth:`load` reads: weights, configuration, class names and a model card; whole or not at all.

        A folder that holds a classifier is replaced; any other folder with files in it is left alone, with an error.
        """
        from shortlist.models.artefact import save

        save(self, path)

    @staticmethod
    def load(path: str | Path, device: str | torch.device = "cpu") -> "Classifier":
        """The classifier that :meth:`save` wrote, on this device."""
        from shortlist.models.artefact import load

        return load(path, device)

    def export_onnx(self, path: str | Path, *, opset: int | None = None) -> None:
        """One ONNX file from raw pictures to sets; see :func:`shortlist.models.onnx.export_onnx`."""
        from shortlist.models.onnx import export_onnx

        export_onnx(self, path, opset=opset)

    def _check_link(self) -> None:
        if self.link is not None and not isinstance(self.link, Link):
            raise InputError(f"link: expected a link or None, got {type(self.link).__name__}")
        self._no_rows()  # checks names, counts and link against the number of classes

    def _no_rows(self) -> Predictions:
        empty = torch.empty(0, self.network.num_classes)
        return Predictions(empty, None, self.classes, self.link, None, self.train_counts)

    def _check_rule(self, rule: SetRule) -> None:
        if not isinstance(rule, SetRule):
            raise InputError(f"rule: expected a SetRule, such as parse_rule('top-k:5'), got {type(rule).__name__}")
        if not rule.fitted:
            raise InputError(f"rule: {rule.text} has not been fitted: call rule.fit(predictions) first")
        rule.check_reads(self._no_rows())
        rule.check_origin(self._no_rows())
        if getattr(rule.ordering, "generator", None) is None:  # asking a randomised rule would change its next answer
            threshold = rule.fitted_buffer("threshold")
            rule(torch.full((1, len(self.classes)), 1 / len(self.classes), device=threshold.device))

    def __repr__(self) -> str:
        network = self.network
        parts = [network.backbone_name, f"{network.head_kind} head", f"{len(self.classes)} classes"]
        return f"Classifier({', '.join(parts)}, link {self.link!r}, rule {None if self.rule is None else self.rule.text})"


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    """Dropout off and batch normalisation by its running numbers, inside; a network that was training goes on training."""
    training = [module for module in network.modules() if module.training]
    try:
        network.eval()
        yield
    finally:
        for module in training:
            module.training = True


def _on_cpu(link: Link | None) -> Link | None:
    """The link beside scores on the CPU; a copy where its numbers lie elsewhere."""
    moved = link is not None and any(buffer.device.type != "cpu" for buffer in link.buffers())
    return copy.deepcopy(link).cpu() if link is not None and moved else link


def _same(one: Link | None, other: Link | None) -> bool:
    return one is other if one is None or other is None else one.fingerprint() == other.fingerprint()


def _unmeasured(rule: SetRule) -> SetRule:
    """The rule without the sizes of its sets, which are those of another link."""
    fresh = copy.deepcopy(rule)
    fresh.calibrated = None
    return fresh


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON makes of it, so that a classifier knows the same about itself before and after it was saved."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(about), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"about: expected what JSON can hold (text, finite numbers, lists, dictionaries): {error}") from None
    return plain
