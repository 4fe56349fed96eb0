"""Sets whose size a second head chooses, beside sets that follow from the probabilities of the same network: draws of Flora.

The second head reads the hidden units of the network and its highest probabilities. It is trained with the network, on the
same rows, or afterwards, on rows that the network has not seen.
"""

import math
import statistics
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from benchmarks.harness import record
from benchmarks.marked_tables import write_table
from benchmarks.results_files import foot, newest
from shortlist.data import Flora
from shortlist.losses import cardinality_aware_loss, cross_entropy_loss
from shortlist.losses.cardinality import set_costs
from shortlist.sets import average_k

NAME, PAGE = "size-heads", "losses.md"
SIZES, WEIGHT, HIGHEST = (1, 2, 4, 8, 16), 0.05, 16
SPECIES, TRAITS, HIDDEN = 100, 40, 256
TRAINING, HELD_OUT, TEST, SEEDS = (3_000, 30_000), 1_000, 20_000, 5
BATCH, STEPS = 128, 600
BEGIN, END = "<!-- size heads: written by `python -m benchmarks page` -->\n", "<!-- end of size heads -->\n"
COLUMNS = (
    "training rows",
    "size head trained on",
    "mean size",
    "label in the set",
    "average-k of the same mean size",
    "cost",
    "cheapest by softmax",
)
Rows = tuple[Tensor, Tensor]


def run() -> None:
    for training in TRAINING:
        for together in (True, False):
            where = "the same rows" if together else f"{HELD_OUT:,} others"
            found = [measured(training, together, seed) for seed in range(SEEDS)]
            numbers = {key: [one[key] for one in found] for key in found[0]}
            record(NAME, f"{training:,} rows, {where}", {"training": training, "where": where, "found": numbers})
            print(training, where, {key: round(statistics.mean(values), 3) for key, values in numbers.items()})


class TwoHeads(nn.Module):
    """Scores of the species, and of the sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(TRAITS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        self.head = nn.Linear(HIDDEN, SPECIES)
        self.size_head = nn.Linear(HIDDEN + HIGHEST, len(SIZES))

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(rows)
        scores = self.head(hidden)
        highest = scores.softmax(1).topk(HIGHEST).values
        return scores, self.size_head(torch.cat([hidden, highest], 1).detach())


def measured(training: int, together: bool, seed: int) -> dict[str, float]:
    """Of one network: what the sets of the size head cost and hold, and those of its probabilities."""
    torch.manual_seed(seed)
    fitting, held_out, (rows, target) = (drawn(n, 3 * seed + part) for part, n in enumerate((training, HELD_OUT, TEST)))
    network = TwoHeads()

    def both(scores: Tensor, size_scores: Tensor, target: Tensor) -> Tensor:
        return cardinality_aware_loss(scores, target, size_scores=size_scores, sizes=SIZES, size_weight=WEIGHT)

    if together:
        train(network, network.parameters(), fitting, both)
    else:
        train(network, network.parameters(), fitting, lambda scores, _, target: cross_entropy_loss(scores, target))
        train(network, network.size_head.parameters(), held_out, both)
    with torch.no_grad():
        scores, size_scores = network(rows)
    costs = set_costs(scores, target, SIZES, WEIGHT, "log") * (1 + WEIGHT * math.log(SIZES[-1]))
    sizes, probs = torch.tensor(SIZES), scores.softmax(1)
    chosen = sizes[size_scores.argmax(1)]
    size = chosen.float().mean().item()
    thresholded = average_k(size).fit(probs).predict(probs)
    return {
        "size": size,
        "hit": (rank_of(target, scores) < chosen).float().mean().item(),
        "hit_average_k": thresholded.gather(1, target[:, None]).float().mean().item(),
        "cost": costs.gather(1, size_scores.argmax(1, keepdim=True)).mean().item(),
        "cost_probs": costs.gather(1, cheapest(probs)[:, None]).mean().item(),
    }


def drawn(n: int, seed: int) -> Rows:
    garden = Flora(SPECIES, SPECIES // 4, seed=0, abundance="balanced")
    rows, target, _ = garden.measurements(n, seed=seed, noise=0.45, spread=1.0)
    return rows, target


def train(network: nn.Module, parameters: Iterable[nn.Parameter], data: Rows, loss: Callable[..., Tensor]) -> None:
    rows, target = data
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    for _ in range(STEPS):
        batch = torch.randint(len(rows), (BATCH,))
        optimizer.zero_grad()
        loss(*network(rows[batch]), target[batch]).backward()
        optimizer.step()
        schedule.step()


def rank_of(target: Tensor, scores: Tensor) -> Tensor:
    return (scores > scores.gather(1, target[:, None])).sum(1)


def cheapest(probs: Tensor) -> Tensor:
    """Which of the sizes has the lowest expected cost by these probabilities."""
    covered = probs.sort(1, descending=True).values.cumsum(1)
    return torch.stack([1 - covered[:, size - 1] + WEIGHT * math.log(size) for size in SIZES], 1).argmin(1)


def table() -> str:
    """The table, and what it was measured on; empty without results."""
    lines = newest(NAME)
    if not lines:
        return ""
    rows = [
        f"| {' | '.join(COLUMNS)} |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for line in lines:
        found = line["found"]
        cells = [_cell(found["size"], ".1f"), *(_cell(found[key], ".1%") for key in ("hit", "hit_average_k"))]
        cells += [_cell(found[key], ".3f") for key in ("cost", "cost_probs")]
        rows.append(f"| {line['training']:,} | {line['where']} | {' | '.join(cells)} |")
    what = (
        f"Flora's table of {SPECIES} balanced species, rows of unequal ambiguity; an MLP, {STEPS} steps; sizes "
        f"{', '.join(map(str, SIZES))}; {TEST:,} test rows; mean ± standard deviation of {SEEDS} seeds."
    )
    return "\n".join([*rows, "", what, "", foot(lines[-1])])


def _cell(values: list[float], form: str) -> str:
    return f"{statistics.mean(values):{form}} ± {statistics.stdev(values):{form}}"


def write() -> None:
    """Put the table into its page."""
    write_table(PAGE, table(), BEGIN, END)
