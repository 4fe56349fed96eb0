"""``shortlist demo``: the main job, unaided: train on Flora, calibrate, measure the distance to the best possible, report."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.console import say

FLORA, SCORES = Path("runs/demo"), Path("runs/demo-scores")


def demo(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for everything the demo makes.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Sets from scores, without training: seconds.")] = False,
) -> None:
    """Train a classifier on a garden whose optimum is known, calibrate it, and write a report: minutes on two cores."""
    if scores:
        from shortlist.cli.demo_scores import demo_scores

        demo_scores(out or SCORES)
        return
    import torch

    from shortlist.cli.train import run_training
    from shortlist.recipes import find_recipe
    from shortlist.runs import Job
    from shortlist.training.devices import processor_computes_bfloat16
    from shortlist.training.run_folder import RunFolder

    folder = out or FLORA
    recipe = find_recipe("flora-minutes")
    if not torch.cuda.is_available() and processor_computes_bfloat16():
        recipe = recipe.with_settings(precision="bfloat16")
    run_training(Job(recipe, folder), resume=RunFolder.holds_run(folder), device="auto", tensorboard=False)
    say(f"now try: shortlist predict {folder} flora:test=5, or shortlist evaluate {folder} --rule lac:0.05")
