"""Templates of HTML pages: text of the page's own is markup, whatever is put into it is not."""

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


@cache
def _environment() -> "jinja2.Environment":
    import jinja2

    # All values are escaped, in every file: the suffix does not decide.
    return jinja2.Environment(
        loader=jinja2.PackageLoader("shortlist.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def template(name: str) -> "jinja2.Template":
    """The template in this file of the folder ``templates``."""
    return _environment().get_template(name)


def template_of(source: str) -> "jinja2.Template":
    """A template of another room, as text, which may include and import those of this folder."""
    return _environment().from_string(source)


def source_of(name: str) -> str:
    """The text of a file of the folder ``templates``, as it stands."""
    return resources.files("shortlist.report.templates").joinpath(name).read_text(encoding="utf-8")
