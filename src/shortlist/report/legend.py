"""A legend of many names: below the picture that it would hide."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHORT = 36  # letters of the longest name, with which there is room for two columns
BELOW, LINE = 0.46, 0.18  # inches from the axes to the legend, which their ticks and label need, and of each of its lines


def place_below(ax: "Axes", names: Sequence[str]) -> dict[str, Any]:
    """What tells ``ax.legend`` to go below the axes; a figure that holds nothing else grows by what that takes."""
    from matplotlib.transforms import ScaledTranslation

    figure = cast("Figure", ax.figure)
    columns = 2 if max(map(len, names)) <= SHORT else 1
    if figure.axes == [ax]:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + LINE * -(-len(names) // columns))
    under = ax.transAxes + ScaledTranslation(0, -BELOW, figure.dpi_scale_trans)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "bbox_transform": under, "borderaxespad": 0.0}
    return place | {"ncols": columns, "fontsize": "small", "frameon": False}
