"""Facts about a run, for the top of its report: data, method, backbone, size, epochs, date, versions."""

import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from shortlist.data.sources import path_and_options
from shortlist.models.artefact import load_about, load_inputs

if TYPE_CHECKING:
    from shortlist.runs.run import Run

SHOWN_VERSIONS = {"shortlist": "Shortlist", "torch": "torch", "python": "Python"}
IN_REPORT = ("optimizer", "lr", "batch_size", "augmentation", "schedule", "seed")  # settings that are shown where runs differ


def run_facts(run: "Run") -> dict[str, str]:
    """What is known about a training, by name, as text; a report shows it, so paths are cut to their last part."""
    recipe, provenance = run.recipe, run.provenance
    inputs, about = load_inputs(run.classifier_path), load_about(run.classifier_path)
    rows = (about.get("data") or {}).get("rows") or {}
    parameters = ", ".join(f"{name}={value}" for name, value in recipe.parameters.items())
    known = provenance["versions"]
    versions = [f"{title} {known[name]}" for name, title in SHOWN_VERSIONS.items() if name in known]
    backbone = recipe.backbone + (", pretrained" if recipe.pretrained else "")
    reached = len(run.history)
    facts = {
        "data": short_source(recipe.data),
        "training rows": f"{rows['train']:,}" if isinstance(rows.get("train"), int) else "",
        "method": recipe.method + (f" ({parameters})" if parameters else ""),
        "backbone": backbone if run.network_record is None else "your own",
        "size": f"{inputs.size} pixels" if inputs.is_pictures else f"{inputs.size} features",
        "epochs": f"{reached} of {recipe.epochs}" if reached and reached != recipe.epochs else str(recipe.epochs),
        "trained": str(provenance["date"] or "").partition("T")[0],
        "with": ", ".join(versions),
    }
    return {name: value for name, value in facts.items() if value}


def compared_facts(run: "Run") -> dict[str, str]:
    """The same, with the settings in which runs that are compared may differ."""
    return run_facts(run) | {name: str(getattr(run.recipe, name)) for name in IN_REPORT}


def short_source(text: str) -> str:
    """The text of a data source without the folders above it, which are nobody else's business.

    >>> short_source("folders:/home/me/birds,split=0.2"), short_source("flora:species=12"), short_source("a/b")
    ('folders:birds,split=0.2', 'flora:species=12', 'b')
    """
    name, colon, rest = text.partition(":") if re.match(r"[a-z0-9_-]+:", text) else ("", "", text)
    path, _ = path_and_options(rest)
    short = PurePath(path).name if path else ""
    return f"{name}{colon}{rest.replace(path, short, 1) if short else rest}"
