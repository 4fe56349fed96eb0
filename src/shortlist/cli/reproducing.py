"""What ``shortlist reproduce`` does: measure what the papers claim, and give verdicts."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import typer

from shortlist.claims.claim import Claim, PartVerdict, Verdict
from shortlist.claims.experiment import lacking
from shortlist.claims.menu import EXPERIMENTS, find_claims, verdicts
from shortlist.claims.results import Result, Results
from shortlist.claims.running import Failure, missing_tasks, run_tasks
from shortlist.cli.console import Outcome, emit_json, overwrite, say, show, warn
from shortlist.cli.engines import Engine
from shortlist.errors import InputError
from shortlist.recipes.published import PAPERS
from shortlist.report import Table
from shortlist.words import counted


def reproduce(
    claims: list[str] | None,
    listed: bool,
    seeds: int | None,
    quick: bool,
    jobs: int,
    results: Path,
    data: Path | None,
    as_json: bool,
    engine: str,
    address: str | None,
    workers: int | None,
) -> None:
    """Measure what the papers claim: train what is missing in the results, and say what holds, what fails, what is open."""
    where = Engine(engine, address, workers)
    if jobs > 1 and where.name != "local":
        raise InputError("--jobs applies only to --engine local: expected --workers")
    chosen = find_claims(claims or [])
    if listed:
        _list(chosen, as_json)
        return
    if data is not None and not data.is_dir():
        raise InputError(f"--data: expected a folder, got {str(data)!r}")
    found = Results(results)
    tasks = missing_tasks(EXPERIMENTS, _arms(chosen, quick, data), found, seeds=seeds, data=data)
    failures = _run(tasks, found, jobs, where)
    judged = [verdict for claim in chosen for verdict in verdicts(claim, found, quick=quick) if verdict.n]
    if as_json:
        emit_json([_record(verdict) for verdict in judged], indent=2)
    else:
        show(table_of(judged))
    if failures:
        raise typer.Exit(Outcome.BAD_INPUT)


def _list(claims: Sequence[Claim], as_json: bool) -> None:
    if as_json:
        keys = ("id", "paper", "table", "sentence", "experiments")
        emit_json([{key: getattr(claim, key) for key in keys} for claim in claims], indent=2)
        return
    rows = [[claim.id, _source(claim), claim.sentence, ", ".join(claim.experiments)] for claim in claims]
    show(Table(["claim", "source", "says", "experiments"], rows))


def _source(claim: Claim) -> str:
    return f"{PAPERS.get(claim.paper, claim.paper)}, {claim.table}" if claim.table else PAPERS.get(claim.paper, claim.paper)


def _arms(claims: Sequence[Claim], quick: bool, data: Path | None) -> dict[str, set[str]]:
    """The arms to run of each experiment; those that cannot be run here are left out, with a line."""
    arms: dict[str, set[str]] = {}
    for claim in claims:
        for name in claim.experiments:
            if not quick or EXPERIMENTS[name].quick:
                arms.setdefault(name, set()).update(claim.arms())
    for name in list(arms):
        reason = lacking(EXPERIMENTS[name], data)
        if reason is not None:
            say(f"{name}: skipped, {reason}")
            del arms[name]
    return arms


def _run(tasks: Sequence[Any], results: Results, jobs: int, engine: Engine) -> list[Failure]:
    def report(number: int, total: int, found: Result | Failure) -> None:
        if isinstance(found, Failure):
            warn(f"{found.task}: {found.sentence}")
        else:
            overwrite(f"{number} of {total}: {found.experiment}, {found.arm}, seed {found.seed}, {found.seconds:.1f} s")

    if tasks:
        results.check_writable()
        say(f"{counted(len(tasks), 'run')} to do, results in {results.path}")
    try:
        with engine.pool() if tasks else nullcontext() as pool:
            each = None if pool is None else partial(pool.each, ahead=1)
            return run_tasks(tasks, results, jobs=jobs, report=report, each=each)
    except KeyboardInterrupt:
        say(f"stopped: what is done is in {results.path}; the same command continues")
        raise typer.Exit(Outcome.STOPPED) from None


def table_of(judged: Sequence[Verdict]) -> Table:
    """One row for each part of each verdict."""
    rows = [
        [
            verdict.claim.id if place == 0 else "",
            verdict.experiment if place == 0 else "",
            verdict.decision if place == 0 else "",
            part.part.name,
            *_numbers(part),
            f"{verdict.seconds:.0f} s" if place == 0 else "",
        ]
        for verdict in judged
        for place, part in enumerate(verdict.parts)
    ]
    columns = ["claim", "experiment", "verdict", "part", "n", "estimate", "95 % interval", "rule", "part", "cost"]
    return Table(columns, rows, flush_right=[False] * 4 + [True] * 3 + [False] * 2 + [True])


def _numbers(part: PartVerdict) -> list[str]:
    if part.interval is None:
        return ["0", "–", "–", str(part.part.rule), part.decision]
    ends = "–" if part.interval.n == 1 else f"{part.interval.low:+.2f} to {part.interval.high:+.2f}"
    return [str(part.interval.n), f"{part.interval.mean:+.2f}", ends, str(part.part.rule), part.decision]


def _record(verdict: Verdict) -> dict[str, Any]:
    parts = [
        {
            "name": part.part.name,
            "decision": part.decision,
            "rule": str(part.part.rule),
            "unit": part.part.unit,
            "values": part.values,
            "interval": None if part.interval is None or part.interval.n == 1 else asdict(part.interval),
        }
        for part in verdict.parts
    ]
    about = {"claim": verdict.claim.id, "experiment": verdict.experiment, "verdict": verdict.decision, "n": verdict.n}
    return {**about, "seconds": round(verdict.seconds, 1), "parts": parts}
