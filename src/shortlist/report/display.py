"""The concept: a picture and the numbers behind it."""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from shortlist.errors import InputError
from shortlist.files import written_whole
from shortlist.report.style import new_axes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".pdf")


class Display:
    """A picture and its numbers: ``.plot(ax)`` draws, ``.points()`` and ``.frame()`` give what is drawn."""

    title: ClassVar[str]
    caption: ClassVar[str]

    def frame(self) -> "pd.DataFrame":
        """The numbers behind the picture, one row a point."""
        import pandas as pd

        columns = self.points()
        return pd.DataFrame({name: list(values) for name, values in columns.items()})

    def points(self) -> dict[str, list[object]]:
        """The same as plain columns."""
        raise TypeError(f"{type(self).__name__} does not say what it shows")

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw onto the axes, or onto new ones."""
        raise TypeError(f"{type(self).__name__} does not say how it is drawn")

    def save(self, path: str | Path) -> None:
        """Draw into a file, whole or not at all: .svg, .png or .pdf."""
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise InputError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")
        figure = cast("Figure", self.plot().figure)
        with written_whole(path) as temporary:
            figure.savefig(temporary, bbox_inches="tight", dpi=160)

    def _axes(self, ax: "Axes | None", xlabel: str, ylabel: str) -> "Axes":
        ax = new_axes() if ax is None else ax
        ax.set_xlabel(xlabel)
        ax.set_ylabel(ylabel)
        return ax
