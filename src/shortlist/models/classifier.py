"""Classifier: network, link, rule and class names together; what is saved, exported and used to predict."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from shortlist.checks import check_finite, json_values, whole
from shortlist.class_names import by_class, superclass_by_class
from shortlist.data.adapters import as_split
from shortlist.data.dataset import Split
from shortlist.errors import InputError
from shortlist.links import Link, Softmax
from shortlist.models.answers import Answers
from shortlist.models.factories import GivenNetwork, as_network
from shortlist.models.given import as_source, is_foreign_dataset
from shortlist.models.heads import HeadName
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network, evaluating
from shortlist.models.quality import RowQuality, quality_for
from shortlist.models.scoring import raw_batches, score_batch, scored_batches
from shortlist.predictions import Predictions
from shortlist.predictions.network_digests import other_network
from shortlist.sets import SetRule, parse_rule
from shortlist.sets.blocks import SetsInBlocks
from shortlist.tensors import Scores, Sets, as_tensor, row_blocks

if TYPE_CHECKING:
    from shortlist.data.pictures import Pictures
    from shortlist.data.problems import Problem


class Classifier(nn.Module):
    """Pictures or features → sets of labels: a network, the link that turns scores into probabilities, and a set rule.

    The three modules are used as they are, not copied; ``.to(device)`` moves all of them.

    Args:
        network: a :class:`Network`; any ``nn.Module`` whose output is scores (N, C), a ``TwoHeadScores`` pair or has
            ``.logits``; or a function that returns one, called with ``classes=`` and, if it takes it, ``inputs=``.
        classes: the names of the classes, all different, in the order of the scores.
        inputs: what the network reads, such as ``InputSpec.imagenet(224)``; needed unless the network is a :class:`Network`,
            which knows it.
        link: turns scores into probabilities; None if the scores cannot be interpreted as such.
        rule: a fitted set rule; None if only scores and probabilities are needed.
        train_counts: the number of training examples of each class, (C,).
        superclasses: the name of the superclass of each class (its genus, its coarse label), C names; None if there are none.
        about: facts for the model card: ``"data"``, ``"method"``, ``"numbers"``, ``"licence"`` and any others, as JSON values.
        single_label: whether each training row had exactly one label.

    >>> from shortlist.links import Softmax
    >>> from shortlist.sets import top_k
    >>> network = Network("features", "linear", InputSpec.features(2), classes=3)
    >>> classifier = Classifier(network, ["ash", "elm", "oak"], link=Softmax(), rule=top_k(2))
    >>> classifier.predict(torch.zeros(4, 2)).sets.sum(1)
    tensor([2, 2, 2, 2])
    >>> Classifier(nn.Linear(2, 3), ["ash", "elm", "oak"], inputs=InputSpec.features(2))
    Classifier(Linear, 3 classes, link None, rule None)
    """

    def __init__(
        self,
        network: GivenNetwork,
        classes: Sequence[str],
        *,
        inputs: InputSpec | None = None,
        link: Link | None = None,
        rule: SetRule | None = None,
        train_counts: Any = None,
        superclasses: Sequence[str] | None = None,
        about: Mapping[str, Any] | None = None,
        single_label: bool = True,
    ):
        super().__init__()
        if isinstance(classes, str) or not isinstance(classes, Sequence):
            raise InputError(f"classes: expected a list of names, got {type(classes).__name__}")
        self.network = as_network(network, inputs, len(classes))
        self.inputs = self.network.inputs
        self.classes = tuple(str(name) for name in classes)
        self.superclasses = None if superclasses is None else tuple(superclass_by_class(superclasses, self.classes))
        self.single_label = bool(single_label)
        counts = by_class("train_counts", train_counts, self.classes)
        self.train_counts = None if counts is None else as_tensor(counts, "train_counts").detach().cpu()
        self.about: dict[str, Any] = json_values("about", dict(about or {}))
        self.link = link
        self._check_link()
        self.rule = rule
        if rule is not None:
            self._check_rule(rule)

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return self.network.device

    def scores(self, batch: Tensor) -> Scores:
        """Scores of one raw batch, float32 (N, C), on the network's device; of two heads, see :meth:`with_head`.

        Args:
            batch: uint8 (N, 3, size, size), or features (N, D); it is standardised here.
        """
        with evaluating(self.network):
            return score_batch(self.network, batch.to(self.device, non_blocking=True))

    def score_batches(
        self,
        source: Any,
        *,
        batch_size: int = 256,
        workers: int | None = None,
        device: str | torch.device | None = None,
        problems: "list[Problem] | None" = None,
        quality: RowQuality | None = None,
    ) -> Iterator[tuple[Tensor, Scores]]:
        """Row numbers int64 (n,) and scores float32 (n, C), a batch at a time, on the CPU; for any number of rows.

        Pictures are decoded by threads and copied to the device while it works on the batch before.

        Args:
            source: as in :meth:`predict`.
            batch_size: rows per batch.
            workers: threads that decode pictures; one per core by default.
            device: move the classifier there first; by default it stays where it is.
            problems: a list to which unreadable pictures are added, and remarks on unusual ones; unreadable rows are then
                skipped. Without a list, an unreadable picture raises.
            quality: collects the quality of the rows as they are scored.
        """
        found, batch_size = as_source(source, self.inputs), whole(1)("batch_size", batch_size)
        if device is not None:
            self.to(device)
        batches = raw_batches(found, self.inputs, batch_size, workers, problems, pin=self.device.type == "cuda")
        return scored_batches(self.network, batches if quality is None else quality.watching(batches))

    def predict(
        self,
        images: Any,
        *,
        batch_size: int = 256,
        workers: int | None = None,
        head: HeadName | None = None,
        quality: Any = None,
    ) -> Answers:
        """The set of labels of each picture, or of each row of features.

        Pictures of other sizes are resized by the function that files are loaded with, so a picture gets the same answer from
        its file and from its pixels.

        Args:
            images: uint8 (N, 3, H, W) or (3, H, W); the path of a picture file, the bytes of one, a Pillow image, or a list of
                these; :class:`~shortlist.data.Pictures`; for a classifier of features, numbers (N, D) or (D,), or a data
                frame; a :class:`~shortlist.data.Split`, a map-style torch dataset or a Hugging Face table of either kind.
            batch_size: rows per batch.
            workers: threads that decode pictures; one per core by default.
            head: the head of a two-head network to use, as in :meth:`with_head`; a rule that was fitted on the other is
                refused.
            quality: for a rule with a gate by quality: one number for each row, or a function of a raw batch (uint8 pictures
                of the network's size, or features) that returns one for each of its rows, such as a second network. A gate by
                sharpness needs none.
        """
        if head is not None:
            return self.with_head(head).predict(images, batch_size=batch_size, workers=workers, quality=quality)
        if self.rule is None:
            raise InputError(
                "this classifier has no set rule: fit one on predictions for rows that it was not trained on, "
                'classifier.fit_rule("average-k:5", predictions), or use one that needs no fit, '
                'classifier.with_rule(parse_rule("top-k:5"))'
            )
        source = as_source(images, self.inputs)
        scores, values = self._all_scores(source, batch_size, workers, quality_for(self.rule, self.inputs, quality))
        probabilities, sets = self.decide(scores, quality=values)
        ids = [str(row) for row in range(len(source))] if isinstance(source, Tensor) else list(source.ids)
        known = (_on_cpu(self.link), self.train_counts, self.superclasses)
        return Answers(scores, probabilities, sets, self.classes, ids, *known, quality=values)

    def _all_scores(
        self, source: "Pictures | Tensor", batch_size: int, workers: int | None, quality: Any
    ) -> tuple[Scores, Tensor | None]:
        """The scores and the quality of all rows."""
        scores = torch.empty(len(source), len(self.classes))
        watched = None if quality is None else RowQuality(quality, len(source))
        for rows, part in self.score_batches(source, batch_size=batch_size, workers=workers, quality=watched):
            scores[rows] = part
        return scores, None if watched is None else watched.values

    @torch.no_grad()
    def decide(self, scores: Scores, sets_of: SetsInBlocks | None = None, quality: Tensor | None = None) -> tuple[Tensor, Sets]:
        """Probabilities (N, C), or the scores themselves without a link, and sets bool (N, C), both on the CPU.

        Args:
            scores: (N, C), as the network gives them.
            sets_of: ``rule.in_blocks()``, if these rows are a block of several that get their sets one after the other.
            quality: (N,), for a rule with a gate by quality or sharpness.
        """
        if self.rule is None:
            raise InputError("this classifier has no set rule: give it one with with_rule(rule)")
        check_finite(scores)
        probabilities, sets = torch.empty(scores.shape), torch.empty(scores.shape, dtype=torch.bool)
        sets_of = self.rule.in_blocks() if sets_of is None else sets_of
        for rows in row_blocks(*scores.shape):
            part = scores[rows].to(self.device)
            probs = part if self.link is None else self.link.probs(part)
            part_quality = None if quality is None else quality[rows]
            probabilities[rows], sets[rows] = probs.cpu(), sets_of(probs, part, part_quality).cpu()
        return probabilities, sets

    def predictions(
        self,
        source: Any,
        target: Any = None,
        *,
        batch_size: int = 256,
        workers: int | None = None,
        head: HeadName | None = None,
        quality: Any = None,
    ) -> Predictions:
        """The scores of these rows as predictions, to fit links and rules on.

        Args:
            source: as in :meth:`predict`.
            target: the labels, if they are known; those of a split or of a torch dataset by default.
            batch_size: rows per batch.
            workers: threads that decode pictures; one per core by default.
            head: the head of a two-head network that gives the scores, as in :meth:`with_head`.
            quality: for gates by quality, as in :meth:`predict`; ``"sharpness"`` computes that of pictures.
        """
        if head is not None:
            return self.with_head(head).predictions(source, target, batch_size=batch_size, workers=workers, quality=quality)
        if is_foreign_dataset(source):  # with its labels
            source = as_split(source, classes=self.classes)
        elif isinstance(source, Split):
            source = self._own_labels(source.with_target(None) if target is not None else source)
        found = as_source(source, self.inputs)
        wanted = quality_for(self.rule, self.inputs, quality, required=False)
        scores, values = self._all_scores(found, batch_size, workers, wanted)
        if target is None and isinstance(source, Split):
            target = source.target
        names = source.ids if isinstance(source, Split) else () if isinstance(found, Tensor) else found.ids
        ids = names if len(names) and len(set(names)) == len(names) else None
        known = (self.train_counts, self.superclasses, self.network.digest(), values)
        return Predictions(scores, target, self.classes, _on_cpu(self.link), ids, *known)

    def _own_labels(self, rows: Split) -> Split:
        """The rows with their labels numbered by the classes of the classifier, matched by name."""
        try:
            return rows.with_classes(self.classes)
        except InputError as error:
            raise InputError(f"{error}: to score rows without labels, pass rows.with_target(None)") from error

    def with_link(self, link: Link | None) -> "Classifier":
        """The same network with another link; a fitted rule is dropped, since its threshold belongs to the old link."""
        rule = self.rule
        if rule is not None and not _same(link, self.link):
            rule = None if rule.needs_fit else _unmeasured(rule)
        return self._with(link, rule)

    def with_rule(self, rule: SetRule | None) -> "Classifier":
        """The same network and link with another rule, which has to be fitted on probabilities of this network and link."""
        other = self._with(self.link, rule)
        if rule is not None and rule.origin is not None:
            self._check_own_scores(rule.origin.get("network"), rule.text)
        return other

    def _check_own_scores(self, digest: str | None, what: str) -> None:
        """Raise an error if these are known to be scores of another network, or of another preparation of inputs."""
        other = "" if digest is None else other_network(digest, self.network.digest())
        if other:
            raise InputError(
                f"{what}: expected scores of this classifier ({self.network.describe()}), got those of "
                f"{other}{' or of another head' if other == 'another network' else ''}: compute them with predictions()"
            )

    def fit_rule(self, rule: SetRule | str, predictions: Predictions) -> "Classifier":
        """The same classifier with this rule, fitted on its own predictions for rows that it was not trained on.

        The sizes of the sets on these rows are kept as ``rule.calibrated``: sets of other sizes show that new rows differ.

        Args:
            rule: a rule, of which a copy is fitted, or its text, such as ``"average-k:5"`` or ``"lac:0.1"``.
            predictions: scores of this classifier, with labels if the rule needs them; its link turns them into probabilities.
        """
        self._check_own_scores(predictions.network_digest, "predictions")
        read = predictions.with_link(_on_cpu(self.link))
        chosen = (
            parse_rule(rule, prior=lambda: read.prior, superclasses=read.superclasses) if isinstance(rule, str) else rule.twin()
        )
        return self.with_rule(chosen.fit(read).to(self.device))

    def with_head(self, head: HeadName, link: Link | None = None) -> "Classifier":
        """The same two-head network, with the scores of the other head, and without a rule that was fitted.

        The softmax of the proposal head is the only consistent estimate of probabilities that a two-head network has; its
        multi-label head orders labels for sets.

        Args:
            head: ``"labels"``, the multi-label head, or ``"proposal"``.
            link: turns the scores of that head into probabilities; by default softmax for ``"proposal"`` and none for
                ``"labels"``, unless the classifier has this head already.

        >>> network = Network("features", "two-head", InputSpec.features(2), classes=3)
        >>> Classifier(network, ["ash", "elm", "oak"]).with_head("proposal")
        Classifier(features, two-head head, proposal scores, 3 classes, link softmax, rule None)
        """
        network = self.network.with_head(head)
        if network is self.network:
            return self if link is None else self.with_link(link)
        if link is None and head == "proposal":
            link = Softmax()
        return self._with(link, None if self.rule is None or self.rule.needs_fit else _unmeasured(self.rule), network)

    def _with(self, link: Link | None, rule: SetRule | None, network: Network | None = None) -> "Classifier":
        return Classifier(
            network or self.network,
            self.classes,
            link=link,
            rule=rule,
            train_counts=self.train_counts,
            superclasses=self.superclasses,
            # Numbers measured with another link or rule do not describe this classifier.
            about={name: value for name, value in self.about.items() if name != "numbers"},
            single_label=self.single_label,
        )

    def save(self, path: str | Path) -> None:
        """Write the folder that :meth:`load` reads: weights, configuration, class names and a model card; whole or not at all.

        A folder that holds a classifier is replaced; any other folder with files in it is refused, and so is the classifier of
        a run, which only training writes. Of a network that was
        written elsewhere the weights are saved, and the import path of the function that made it, but no code.
        """
        from shortlist.models.artefact import check_outside_run, save

        check_outside_run(path)
        save(self, path)

    @staticmethod
    def load(path: str | Path, device: str | torch.device = "cpu", *, network: GivenNetwork | None = None) -> "Classifier":
        """The classifier that :meth:`save` wrote.

        Args:
            path: its folder.
            device: where to put it.
            network: needed only if the network was not built from names alone: a module of the same architecture, which
                receives the saved weights; a function that returns one; or the import path of such a function,
                ``"package.module:function"``. Nothing is imported unless it is named here.
        """
        from shortlist.models.artefact import load

        return load(path, device, network)

    def export_onnx(self, path: str | Path, *, opset: int | None = None) -> None:
        """Write one ONNX file, from raw inputs to sets; see :func:`shortlist.models.onnx.export_onnx`."""
        from shortlist.models.onnx import export_onnx

        export_onnx(self, path, opset=opset)

    def _check_link(self) -> None:
        if self.link is not None and not isinstance(self.link, Link):
            raise InputError(f"link: expected a link or None, got {type(self.link).__name__}")
        self._no_rows()  # checks names, counts and link against the number of classes

    def _no_rows(self) -> Predictions:
        empty = torch.empty(0, self.network.num_classes)
        known = (None, self.train_counts, self.superclasses)
        return Predictions(empty, None, self.classes, self.link, *known, quality=())

    def _check_rule(self, rule: SetRule) -> None:
        if not isinstance(rule, SetRule):
            raise InputError(f"rule: expected a SetRule, such as parse_rule('top-k:5'), got {type(rule).__name__}")
        if not rule.fitted:
            raise InputError(f"rule: {rule.text} has not been fitted: call rule.fit(predictions) first")
        rule.check_reads(self._no_rows())
        rule.check_origin(self._no_rows())
        if not rule.ordering.randomized:  # asking a randomised rule would change its next answer
            threshold = rule.fitted_buffer("threshold")
            probs = torch.full((1, len(self.classes)), 1 / len(self.classes), device=threshold.device)
            rule(probs, torch.zeros(1) if rule.needs_quality else None)

    def __repr__(self) -> str:
        rule = None if self.rule is None else self.rule.text
        return f"Classifier({self.network.describe()}, {len(self.classes)} classes, link {self.link!r}, rule {rule})"


def _on_cpu(link: Link | None) -> Link | None:
    """The link on the CPU, where scores are; a copy if its tensors are elsewhere."""
    moved = link is not None and any(buffer.device.type != "cpu" for buffer in link.buffers())
    return copy.deepcopy(link).cpu() if link is not None and moved else link


def _same(one: Link | None, other: Link | None) -> bool:
    return one is other if one is None or other is None else one.fingerprint() == other.fingerprint()


def _unmeasured(rule: SetRule) -> SetRule:
    """The rule without the sizes of its sets, which belong to another link."""
    fresh = copy.deepcopy(rule)
    fresh.calibrated = None
    return fresh
