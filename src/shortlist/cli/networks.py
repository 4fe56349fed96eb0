"""The user's own networks on the command line: ``--network package.module:function``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from shortlist.errors import InputError
from shortlist.models import NetworkNeededError


@contextmanager
def networks_by_option() -> Iterator[None]:
    """Context in which modules in the current folder can be imported, and errors about a missing network name the option."""
    sys.path.insert(0, "")
    try:
        yield
    except NetworkNeededError as error:
        where = str(error).partition(": ")[0]
        made = f", which was made by {error.factory}" if error.factory else ""
        raise InputError(
            f"{where}: expected the code of its network{made}: pass --network {error.factory or 'MODULE:FUNCTION'}"
        ) from error
    finally:
        if "" in sys.path:
            sys.path.remove("")
