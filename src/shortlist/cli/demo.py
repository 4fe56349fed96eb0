"""``shortlist demo``: train on synthetic pictures, calibrate, compare with the best possible result, write a report."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.console import say

FLORA, SCORES = Path("runs/demo"), Path("runs/demo-scores")


def demo(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the output; runs/demo or runs/demo-scores by default.")
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Make sets from scores, without training a network; takes seconds.")
    ] = False,
) -> None:
    """Train on synthetic pictures whose best possible result is known, and write a report; takes minutes on two cores."""
    if scores:
        from shortlist.cli.demo_scores import demo_scores

        demo_scores(out or SCORES)
        return
    import torch

    from shortlist.cli.training import run_training
    from shortlist.recipes import find_recipe
    from shortlist.runs import Job
    from shortlist.training.devices import cpu_has_bfloat16
    from shortlist.training.run_folder import RunFolder

    folder = out or FLORA
    recipe = find_recipe("flora-minutes")
    if not torch.cuda.is_available() and cpu_has_bfloat16():
        recipe = recipe.with_settings(precision="bfloat16")
    run_training(Job(recipe, folder), resume=RunFolder.holds_run(folder), device="auto", tensorboard=False)
    say(f"next: shortlist predict {folder} flora:test=5, or shortlist evaluate {folder} --rule lac:0.05")
