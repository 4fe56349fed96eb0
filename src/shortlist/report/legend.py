"""Legends: inside the plot if they are short, below it otherwise; long names are shortened."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from shortlist.report.style import INK

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

# Prefix of labels that belong in a legend, whatever the name starts with.
NAMED = "\u2060"
# Most entries, and most letters of an entry, of a legend inside the plot; larger ones go below it.
INSIDE, NARROW = 5, 32
# Most letters of a name in a legend of two columns, and of a name that is not shortened.
SHORT, WHOLE = 36, 56
LEAD = 12  # letters kept before the first difference between names
BELOW, LINE = 0.46, 0.18  # inches between the axes and the legend (room for ticks and label), and of each line of the legend
PLAIN: dict[str, Any] = {"frameon": False, "labelcolor": INK}


def finish(ax: "Axes", *, legend: bool, below: bool = False) -> "Axes":
    """Add a legend of the named artists: inside the plot or, with ``below``, under it if the names are many or long.

    It goes under the plot only if the figure has a layout engine, which makes room; a figure with a single plot grows.
    """
    handles, names = _named(ax)
    if legend and handles:
        outside = below and _need_room(names) and cast("Figure", ax.figure).get_layout_engine() is not None
        _literal(ax.legend(handles, names, **PLAIN, **(_place_below(ax, names) if outside else {})))
    return ax


def finish_all(axes: "Sequence[Axes]") -> None:
    """One legend for panels that draw the same series: below all of them, if the figure contains nothing else."""
    figure = cast("Figure", axes[0].figure)
    handles, names = _named(axes[-1])
    if list(figure.axes) != list(axes) or figure.get_layout_engine() is None or not _need_room(names):
        finish(axes[-1], legend=True, below=True)
    elif handles:
        columns = len(axes) * _columns(names)
        _grow(figure, -(-len(names) // columns))
        _literal(figure.legend(handles, names, loc="outside lower center", ncols=columns, fontsize="small", **PLAIN))


def shortened(name: str) -> str:
    """The name, or its beginning and its end if it is too long for a legend.

    >>> shortened("spa-label-pair")
    'spa-label-pair'
    >>> shortened("long " * 10 + "name " * 10 + "end")
    'long long long long long lo…name name name name name end'
    """
    half = WHOLE // 2
    return name if len(name) <= WHOLE else f"{name[: half - 1]}…{name[-half:]}"


def told_apart(names: Sequence[str]) -> list[str]:
    """The names, shortened so that different names stay different.

    >>> told_apart([f"{'the same beginning ' * 3}run {n}{' and the same end' * 3}" for n in (1, 2)])
    ['…ginning run 1 and the same end and the same end and th…', '…ginning run 2 and the same end and the same end and th…']
    """
    short = [shortened(name) for name in names]
    alike = [sorted({other for other, text in zip(names, short, strict=True) if text == one}) for one in short]
    return [
        text if len(group) == 1 else _from_the_difference(name, group)
        for name, text, group in zip(names, short, alike, strict=True)
    ]


def _from_the_difference(name: str, others: Sequence[str]) -> str:
    """The part of a name from a little before it differs from the others."""
    differs = next((place for place, signs in enumerate(zip(*others, strict=False)) if len(set(signs)) > 1), 0)
    start = max(0, differs - LEAD)
    end = start + WHOLE - 2
    return f"{'…' * (start > 0)}{name[start:end]}{'…' * (len(name) > end)}"


def _named(ax: "Axes") -> tuple[list["Artist"], list[str]]:
    """The named artists and their names; marked by a prefix because matplotlib hides labels that start with an underscore."""
    found = [(artist, str(artist.get_label())) for artist in ax.get_children()]
    kept = [(artist, label.removeprefix(NAMED)) for artist, label in found if label.startswith(NAMED) and label != NAMED]
    return [artist for artist, _ in kept], told_apart([name for _, name in kept])


def _need_room(names: Sequence[str]) -> bool:
    return len(names) > INSIDE or max(map(len, names), default=0) > NARROW


def _columns(names: Sequence[str]) -> int:
    return 2 if max(map(len, names)) <= SHORT else 1


def _place_below(ax: "Axes", names: Sequence[str]) -> dict[str, Any]:
    """Arguments of ``ax.legend`` that put it below the axes; a figure with nothing else grows by its height."""
    from matplotlib.transforms import ScaledTranslation

    figure = cast("Figure", ax.figure)
    columns = _columns(names)
    if figure.axes == [ax]:
        _grow(figure, -(-len(names) // columns))
    under = ax.transAxes + ScaledTranslation(0, -BELOW, figure.dpi_scale_trans)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "bbox_transform": under, "borderaxespad": 0.0}
    return place | {"ncols": columns, "fontsize": "small"}


def _grow(figure: "Figure", lines: int) -> None:
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + LINE * lines)


def _literal(legend: "Legend") -> None:
    for text in legend.get_texts():
        text.set_parse_math(False)  # a file name may contain a dollar sign
