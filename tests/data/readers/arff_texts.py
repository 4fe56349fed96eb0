"""Small ARFF files and label lists, for the tests of their readers."""

HEADER = "@relation leaves\n@attribute width numeric\n@attribute colour {red,green,blue}\n@attribute oak {0,1}\n@data\n"
XMLNS = 'xmlns="http://mulan.sourceforge.net/labels"'


def write(folder, text, name="leaves.arff"):
    """The path of a file with this text, line ends as they are."""
    (folder / name).write_bytes(text.encode())
    return folder / name


def xml(*names, opening=f"<labels {XMLNS}>"):
    """A label list as Mulan publishes them."""
    labels = "".join(f'<label name="{name}"></label>\n' for name in names)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{opening}\n{labels}</labels>'
