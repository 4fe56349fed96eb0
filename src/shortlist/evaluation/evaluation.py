"""Evaluation: everything that was measured about one rule on one set of predictions."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor

from shortlist.errors import InputError
from shortlist.evaluation.column_groups import column_numbers
from shortlist.evaluation.confusion import Confusions
from shortlist.evaluation.galleries import Exhibit, Gallery
from shortlist.evaluation.shots import ShotGroup, measured_groups
from shortlist.evaluation.size_strata import SizeStratum, size_strata
from shortlist.evaluation.superclasses import superclass_columns
from shortlist.evaluation.tally import BINS
from shortlist.metrics import Curve, calibration_definition
from shortlist.metrics.accuracy import class_shares, shot_groups
from shortlist.metrics.binned_pairs import Bands, frequency_bands
from shortlist.metrics.calibration import Norm, Over, bin_error
from shortlist.metrics.classwise import class_numbers
from shortlist.metrics.curves import curve_of_ranks, curve_of_sizes
from shortlist.metrics.outliers import RowScores
from shortlist.metrics.significance import DRAWS, CalibrationTest, calibration_test, flipped_test
from shortlist.metrics.totals import ratio
from shortlist.predictions.columns import as_column
from shortlist.sets import SetRule
from shortlist.sets.gates import ROW_MEASURES, RowMeasure
from shortlist.sets.sizes import SizeSummary
from shortlist.tensors import Array
from shortlist.words import listed

if TYPE_CHECKING:
    import pandas as pd

Pairs: TypeAlias = Literal["top", "all", "top_n"]
PAIRS: tuple[Pairs, ...] = ("top", "all", "top_n")
MANY_ROWS, FEW_DRAWS = 2**17, 199  # so that the calibration test of millions of rows takes seconds


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What was measured about the sets of one rule, and about the probabilities behind them.

    Args:
        name: what tables call it.
        rule: the rule that made the sets; None if only the probabilities were evaluated.
        classes: names of the classes.
        single_label: whether every row has exactly one label.
        labelled: whether labels are known; without them only set sizes are.
        rows: number of rows.
        totals: sums over the rows, see :mod:`shortlist.evaluation.tally`.
        mean_average_precision: mAP by class and by example, for rows with several labels.
        train_counts: training examples of each class, where known.
        galleries: rows worth looking at, and why.
        confusions: which classes are confused, where labels are known.
        lookup: finds what the rule answered for given rows.
        slab: finds the slab of the probabilities that the rule covers worst; labels found in it, and labels.
        ids: of the rows; None if they are numbered.
        source: what plots of the scores alone call it, whatever the rule.
        details: where scores and rule come from.
        notes: what the fit of the rule warned about.
        calibration_bins: number of bins of equal width of calibration errors, reliability diagrams and the calibration test.
        top_n: number of most probable labels of each row over which ``top_n`` quantities are measured; None if they are not.
        shots: edges of the groups of classes by number of training examples; None for few, medium and many.
        superclasses: the superclass of each class, where known.
        columns: the groups of the rows by the name of their column, for those that were asked for and that of the rule.
    """

    name: str
    rule: SetRule | None
    classes: tuple[str, ...]
    single_label: bool
    labelled: bool
    rows: int
    totals: Mapping[str, Tensor]
    mean_average_precision: Mapping[str, float]
    train_counts: Tensor | None
    galleries: Sequence[Gallery]
    source: str
    details: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    calibration_bins: int = BINS
    top_n: int | None = None
    shots: tuple[int, ...] | None = None
    superclasses: tuple[str, ...] | None = None
    confusions: Confusions | None = None
    lookup: Callable[[Tensor], list[Exhibit]] | None = None
    slab: Callable[[], tuple[float, float]] | None = None
    ids: Sequence[str] | None = None
    columns: Mapping[str, Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        measured = ", ".join(f"{name} {value:.4g}" for name, value in self._summary().items())
        return f"Evaluation({self.name}: {self.rule_text}, {self.rows:,} rows{', ' if measured else ''}{measured})"

    def _summary(self) -> dict[str, float]:
        from shortlist.evaluation.quantities import QUANTITIES

        names = ("coverage", "recall", "size", "top1", "map_class")
        values = {name: QUANTITIES[name].value(self) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def rule_text(self) -> str:
        """The rule as text; ``no rule`` without one."""
        return "no rule" if self.rule is None else self.rule.text

    @property
    def sizes(self) -> Tensor:
        """Number of sets of size 0, 1, 2, …, C."""
        return self.totals.get("sizes", torch.zeros(len(self.classes) + 1, dtype=torch.float64))

    @property
    def group_sizes(self) -> dict[str, Tensor]:
        """The same for the rows with a label in each shot group, where training counts are known."""
        table = self.totals.get("group_sizes")
        return {} if table is None else dict(zip(self._shot_members(), table, strict=True))

    @property
    def hits(self) -> Tensor:
        """(2, C): for each class, how many of its labels are in their set, and how many labels there are."""
        return self.totals.get("hits", torch.zeros(2, len(self.classes), dtype=torch.float64))

    @property
    def class_sizes(self) -> Tensor:
        """Mean size of the sets of the rows with each class, (C,); NaN where there are none."""
        sums = self.totals.get("class_sizes")
        return torch.full((len(self.classes),), math.nan) if sums is None else sums / self.hits[1].cpu()

    @property
    def size(self) -> SizeSummary:
        """Mean and variance of the set sizes."""
        return SizeSummary.of(self.sizes)

    @property
    def coverage(self) -> float:
        """Share of rows whose label is in their set; with several labels a row, share of labels (recall)."""
        hits, count = self.hits.sum(1).tolist()
        return hits / count if count else math.nan

    @property
    def coverage_error(self) -> float:
        """Standard error of the coverage: rows are independent, the labels of one row are not."""
        count = float(self.hits[1].sum())
        if not count:
            return math.nan
        hits, both, labels = self.totals["moments"].tolist()
        squares = hits - 2 * self.coverage * both + self.coverage**2 * labels
        return math.sqrt(max(0.0, squares)) / count

    @property
    def macro_coverage(self) -> float:
        """Mean of the coverages of the classes present."""
        return float(class_shares(self.hits).nanmean())

    @property
    def precision(self) -> float:
        """Share of the returned labels that are right."""
        returned = self.size.mean * self.rows
        return float(self.hits[0].sum()) / returned if returned else math.nan

    @property
    def row_recall(self) -> float:
        """Several labels a row: mean over rows of the share of a row's labels in its set, 1 for a row without labels."""
        return float(ratio(self.totals["row_recall"])) if "row_recall" in self.totals else math.nan

    @property
    def empty_rate(self) -> float:
        """Share of empty sets."""
        return float(self.sizes[0] / self.sizes.sum())

    def shot_coverages(self) -> dict[str, float]:
        """Mean coverage of the classes present in each shot group, where training counts are known."""
        if self.train_counts is None or "hits" not in self.totals:
            return {}
        shares = class_shares(self.hits)
        return {name: float(shares[members].nanmean()) for name, members in self._shot_members().items()}

    def _shot_members(self) -> dict[str, Tensor]:
        """Which classes are in each shot group, bool (C,) each."""
        assert self.train_counts is not None
        return shot_groups(self.train_counts, self.shots)

    def shot_groups(self) -> list[ShotGroup]:
        """What was measured about each shot group; none where training counts or labels are not known."""
        if self.train_counts is None:
            return []
        return measured_groups(self._shot_members(), self.totals, single_label=self.single_label)

    def by_shots(self) -> "pd.DataFrame":
        """The same as a data frame, one row a group, with the columns of :meth:`ShotGroup.record`."""
        import pandas as pd

        records = [group.record() for group in self.shot_groups()]
        return pd.DataFrame(records, columns=list(records[0]) if records else ["group"]).set_index("group")

    def superclass_numbers(self) -> dict[str, list[Any]]:
        """The columns of :meth:`by_superclass`; none without labels, a rule or superclasses."""
        return {} if self.superclasses is None else superclass_columns(self.superclasses, self.totals)

    def by_column(self, column: Any) -> "pd.DataFrame":
        """Coverage and size by groups of rows, fitted by group or not, one row a group; no rows without labels or a rule.

        Args:
            column: the name of one of :attr:`columns`, or the group of each row, N texts or numbers.

        Columns: ``rows``; ``labels`` of these rows; ``coverage``, the share of them in the sets, with its 95 % Wilson interval
        ``coverage_low``, ``coverage_high``; ``size``, the mean size of the sets; ``empty_sets``, the share of empty ones.
        Rows whose group is not known are the group with the empty name.
        """
        import pandas as pd

        if isinstance(column, str) and column not in self.columns:
            raise InputError(
                f"column: expected one of {listed(list(self.columns)) or 'none, as none was asked for'}, got {column!r}"
            )
        values = self.columns[column] if isinstance(column, str) else as_column(column, self.rows, "column")
        found = column_numbers(values, self.totals["outcomes"]) if "outcomes" in self.totals else {"group": []}
        return pd.DataFrame(found).set_index("group")

    def by_superclass(self) -> "pd.DataFrame":
        """Coverage of each superclass, in the order of their first class; no rows without labels, a rule or superclasses.

        Columns: ``classes``, number of classes; ``rows``, number of rows with a label of the superclass;
        ``superclass_coverage``, the share of them that have any label of it in their set; ``class_coverage``, the share of
        their labels of this superclass that are in the set of their row.
        """
        import pandas as pd

        return pd.DataFrame(self.superclass_numbers() or {"superclass": []}).set_index("superclass")

    def size_strata(self) -> list[SizeStratum]:
        """What was measured about the rows with sets of the same size, or nearly; none without labels or a rule."""
        return size_strata(self.sizes, self.totals["size_hits"]) if "size_hits" in self.totals else []

    def by_size(self) -> "pd.DataFrame":
        """The same as a data frame, one row a stratum, with the columns of :meth:`SizeStratum.record`."""
        import pandas as pd

        records = [stratum.record() for stratum in self.size_strata()]
        return pd.DataFrame(records, columns=list(records[0]) if records else ["size"]).set_index("size")

    @cached_property
    def worst_slab(self) -> tuple[float, float] | None:
        """Labels found and labels in the slab of the probabilities that is covered worst; None where it was not looked for."""
        return None if self.slab is None else self.slab()

    @cached_property
    def rank_curve(self) -> Curve | None:
        """Top-k accuracy for every k; one label a row."""
        return curve_of_ranks(self.totals["ranks"]) if "ranks" in self.totals else None

    @cached_property
    def size_curve(self) -> Curve | None:
        """Average-k accuracy against mean set size, from probabilities and labels."""
        return curve_of_sizes(self.totals["curve"]) if "curve" in self.totals else None

    @property
    def reliability(self) -> dict[Pairs, Tensor]:
        """(3, bins) of pairs, summed probability and right pairs, over the top label of a row, all pairs and the top n."""
        return {over: self.totals[over] for over in PAIRS if over in self.totals}

    def reliability_bands(self, over: Pairs) -> Bands:
        """95 % intervals of the frequencies of :attr:`reliability`; the pairs of a row may depend on each other."""
        return frequency_bands(self.totals[over], self.totals.get(f"{over}_moments"))

    def outliers(self, by: RowMeasure = "confidence") -> RowScores | None:
        """The number of each row by which rows with a label are told from those without; None unless there are both."""
        table = self.totals.get("outliers")
        if table is None or not 0 < float(table[2].sum()) < table.shape[1]:
            return None
        return RowScores(table[ROW_MEASURES.index(by)], table[2] > 0)

    def calibration_error(self, over: Pairs, norm: Norm = "expected") -> float:
        """Calibration error over the ``top`` label of a row, ``all`` pairs or the ``top_n``; NaN where it is not defined."""
        table = self.totals.get(over)
        return math.nan if table is None else float(bin_error(table, norm))

    def calibration(self) -> dict[str, float]:
        """Expected calibration errors by their definition."""
        counted: dict[Pairs, Over | None] = {"top": "top", "all": "all", "top_n": self.top_n}
        definitions = {
            over: calibration_definition("expected", self.calibration_bins, "width", counted[over]) for over in self.reliability
        }
        return {definition: self.calibration_error(over) for over, definition in definitions.items()}

    @cached_property
    def calibration_test(self) -> CalibrationTest | None:
        """Test whether labels follow the probabilities, over the top label of a row, all pairs if rows have several labels.

        See :func:`shortlist.metrics.calibration_test`; from 131,072 rows with 199 draws instead of 999.
        """
        draws = DRAWS if self.rows < MANY_ROWS else FEW_DRAWS
        if "top_pairs" in self.totals:
            confidence, right = self.totals["top_pairs"]
            found = calibration_test(confidence[:, None], right[:, None] > 0, bins=self.calibration_bins, draws=draws)
            return CalibrationTest(*found)
        if "residuals" in self.totals and "class_bins" in self.totals:
            variance = self.totals["class_bins"][3].sum(0).cpu()
            return flipped_test(self.totals["residuals"].T.contiguous(), variance, draws)
        return None

    def class_numbers(self) -> dict[str, Tensor]:
        """The columns of :meth:`class_calibration`, (C,) each; none without labels or a link."""
        table = self.totals.get("class_bins")
        return {} if table is None else class_numbers(table)

    def class_calibration(self) -> "pd.DataFrame":
        """Calibration of each class over its pairs with all rows, one row a class; no rows without labels or a link.

        Columns: ``labels``, number of rows with the class; ``probability``, its mean; ``frequency``, share of rows with the
        class; ``gap``, probability - frequency; ``z``, the gap in standard errors, beyond ±2 for one calibrated class in
        twenty; ``ece``, ``ace``, ``mce``, calibration errors of the class; ``training_examples`` where known.
        """
        import pandas as pd

        columns = {name: values.cpu().numpy() for name, values in self.class_numbers().items()}
        if columns:
            columns["labels"] = columns["labels"].astype(int)
        if columns and self.train_counts is not None:
            columns["training_examples"] = self.train_counts.numpy()
        return pd.DataFrame(columns, index=pd.Index(self.classes if columns else [], name="class"))

    def by_class(self) -> "pd.DataFrame":
        """Everything about each class, one row a class; no rows without labels.

        Columns: ``labels``, number of rows with the class; ``coverage``, the share of them that have it in their set, with
        its 95 % Wilson interval ``coverage_low``, ``coverage_high``; ``size``, the mean size of their sets; then those of
        :meth:`class_calibration`.
        """
        import pandas as pd

        frame = self.class_calibration()
        if "hits" not in self.totals:
            return frame
        hits, rows = self.hits.cpu()
        low, high = (end.where(rows > 0, math.nan) for end in frequency_bands(torch.stack([rows, rows, hits])))
        columns = {"labels": rows.long(), "coverage": hits / rows, "coverage_low": low, "coverage_high": high}
        columns["size"] = self.class_sizes
        found = pd.DataFrame({name: values.numpy() for name, values in columns.items()})
        found.index = pd.Index(self.classes, name="class")
        return found if frame.empty else found.join(frame.drop(columns="labels"))

    def numbers(self) -> dict[str, Any]:
        """Name, rule and number of rows, and every quantity that is defined, with its standard error as ``…_se``.

        :data:`shortlist.evaluation.quantities.QUANTITIES` has their definitions.
        """
        from shortlist.evaluation.quantities import QUANTITIES

        found: dict[str, Any] = {"name": self.name, "rule": self.rule_text, "rows": self.rows}
        for name, quantity in QUANTITIES.items():
            value = quantity.value(self)
            if value is not None:
                found[name] = value
                if quantity.error is not None:
                    found[f"{name}_se"] = quantity.error(self)
        return found

    def frame(self) -> "pd.DataFrame":
        """Every quantity that is defined: its group, value, standard error and definition, one row a quantity."""
        import pandas as pd

        from shortlist.evaluation.quantities import defined

        rows = [
            {
                "quantity": quantity.name,
                "group": quantity.group,
                "value": value,
                "standard_error": quantity.error(self) if quantity.error is not None else math.nan,
                "definition": quantity.meaning(self),
            }
            for quantity, value in defined(self)
        ]
        columns = ["quantity", "group", "value", "standard_error", "definition"]
        return pd.DataFrame(rows, columns=columns).set_index("quantity")
