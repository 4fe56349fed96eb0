"""Whether training computes the head and the loss together, some rows at a time (the setting ``fused_head``)."""

import torch
from accelerate import Accelerator

from shortlist.errors import InputError
from shortlist.losses import LossState, supports_linear
from shortlist.losses.penalised import PenalisedState
from shortlist.models.heads import has_pending_scores
from shortlist.models.network import Network, WholeNetwork
from shortlist.training.criterion import Criterion
from shortlist.training.recipe import Recipe

# Head and loss together take one and a half times as long on the device (docs/benchmarks.md), so memory has to be worth it: the
# scores of a batch, their gradient and what a loss keeps, about four float32 numbers each, are above this share of the GPU's.
LARGE_SHARE = 0.1
BYTES_PER_SCORE = 16


def uses_fused_head(recipe: Recipe, network: Network, criterion: Criterion, accelerator: Accelerator) -> bool:
    """Whether head and loss are computed together; an error if the recipe says so and they cannot be.

    ``"auto"`` does so on one GPU if the scores of a batch would take a tenth of its memory, and head and loss allow it.
    """
    if recipe.fused_head is False:
        return False
    reason = _obstacle(recipe, network, criterion, accelerator.num_processes)
    if recipe.fused_head is True:
        if reason is not None:
            raise InputError(f"fused_head: expected False or 'auto', because {reason}; got True")
        return True
    alone = accelerator.device.type == "cuda" and accelerator.num_processes == 1
    if not alone or reason is not None:
        return False
    rows = -(-recipe.batch_size // recipe.accumulate)
    return rows * network.num_classes * BYTES_PER_SCORE > LARGE_SHARE * gpu_memory(accelerator.device)


def gpu_memory(device: torch.device) -> int:
    """The memory of a GPU in bytes, whether free or not: a training must not depend on what else runs."""
    return int(torch.cuda.get_device_properties(device).total_memory)


def _obstacle(recipe: Recipe, network: Network, criterion: Criterion, processes: int) -> str | None:
    """What speaks against it; None if nothing does."""
    if isinstance(network, WholeNetwork) or not has_pending_scores(network.head):
        return f"the head of the network ({network.describe()}) is not one of linear, cosine and two-head"
    state: LossState = criterion.state.state if isinstance(criterion.state, PenalisedState) else criterion.state
    if not supports_linear(criterion.loss) or type(state) is not LossState:
        shared = " on several processes" if processes > 1 else ""
        return f"the loss of method {recipe.method} needs the scores of all rows at once{shared}"
    return None
