"""Display: a plot and the numbers behind it."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from shortlist.errors import InputError
from shortlist.files import written_whole
from shortlist.report.style import figure_of, new_axes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SUFFIXES = (".svg", ".png", ".pdf")


class Display:
    """A plot and its numbers: ``.plot(ax)`` draws, ``.points()`` and ``.frame()`` give what is drawn.

    ``.plot()`` without axes draws on a new pyplot figure, so that a notebook shows it at the end of the cell and ``plt.show()``
    in a script. A display at the end of a notebook cell shows its plot too.
    """

    title: ClassVar[str]
    caption: ClassVar[str]

    def frame(self) -> "pd.DataFrame":
        """The numbers behind the plot, one row a point."""
        import pandas as pd

        columns = self.points()
        return pd.DataFrame({name: list(values) for name, values in columns.items()})

    def points(self) -> dict[str, list[object]]:
        """The same as plain columns."""
        raise TypeError(f"{type(self).__name__} defines no points()")

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw on the axes, or on those of a new figure; returns them."""
        raise TypeError(f"{type(self).__name__} defines no plot()")

    def save(self, path: str | Path) -> None:
        """Write the plot to a file: .svg, .png or .pdf."""
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise InputError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")
        figure = figure_of(self)
        with written_whole(path) as temporary:
            figure.savefig(temporary, bbox_inches="tight", dpi=160)

    def _repr_png_(self) -> bytes:
        """The plot, for notebooks."""
        image = io.BytesIO()
        figure_of(self).savefig(image, format="png", bbox_inches="tight", dpi=110)
        return image.getvalue()

    def _axes(self, ax: "Axes | None", xlabel: str, ylabel: str) -> "Axes":
        ax = new_axes() if ax is None else ax
        ax.set_xlabel(xlabel)
        ax.set_ylabel(ylabel)
        return ax
