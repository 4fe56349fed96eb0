"""How a training begins: anew, or with the run in its folder. The first process decides and tells the others."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from shortlist.locks import locked_folder
from shortlist.machine import is_first_process, may_replace_another
from shortlist.models.factories import GivenNetwork
from shortlist.processes import asked_of_first
from shortlist.training.network import check_network, given_record
from shortlist.training.provenance import provenance
from shortlist.training.recipe import Recipe
from shortlist.training.run_folder import RunFolder

Resume: TypeAlias = bool | Literal["auto"]
PATIENCE = 120.0  # seconds; servers of network disks keep the locks of a machine that went down for about 90


@dataclass
class Beginning:
    """How a training has begun.

    Args:
        resumed: whether it goes on with a run that was there.
        stays: whether the run stays in the folder if it fails; a new one does from its first step on.
    """

    resumed: bool
    stays: bool = False


def check_folder(run: RunFolder, recipe: Recipe, network: GivenNetwork | None, resume: Resume) -> bool:
    """Whether the run in the folder is to be resumed; an error if it cannot be, or if a new one cannot begin there."""
    resumed = RunFolder.holds_run(run.path) if resume == "auto" else resume
    if resumed:
        run.check_resumable(recipe)
    else:
        run.check_new()
    check_network(run, recipe, network, resumed)
    return resumed


@contextmanager
def begun_training(run: RunFolder, recipe: Recipe, network: GivenNetwork | None, resume: Resume) -> Iterator[Beginning]:
    """Context in which the first process holds the folder, and every process knows whether the training is resumed.

    The recipe of a new run is written before anything else; it is removed again if the run fails before its first step.

    Args:
        run: the folder.
        recipe: what to do.
        network: the user's own network, if there is one.
        resume: whether to resume the run in the folder; ``"auto"``: if there is one. A process that takes the place of
            another then waits until the lock of that one is released.
    """
    with ExitStack() as held:

        def take_folder() -> bool:
            patience = PATIENCE if resume == "auto" and may_replace_another() else 0.0
            held.enter_context(locked_folder(run.path, patience))
            resumed = check_folder(run, recipe, network, resume)  # again, now that no other process can write to it
            if not resumed:
                run.write_recipe(recipe, **given_record(network), **provenance())
            return resumed

        resumed = asked_of_first(take_folder)
        beginning = Beginning(resumed, stays=resumed)
        try:
            yield beginning
        except BaseException:
            if is_first_process() and not beginning.stays:
                run.discard()
            raise
