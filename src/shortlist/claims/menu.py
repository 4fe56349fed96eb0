"""All claims and experiments by id; each paper, and each question of ours, has a file, which lists its own."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from shortlist.claims import beyond, cheng, garcin_2022, garcin_2023, learning_rates, liao, thesis
from shortlist.claims.claim import Claim, Verdict, judge
from shortlist.claims.experiment import Experiment
from shortlist.claims.results import Results, by_seed
from shortlist.errors import InputError
from shortlist.words import expected_one_of, shown

PAPERS = (garcin_2022, garcin_2023, thesis, liao, cheng, beyond, learning_rates)
CLAIMS: Mapping[str, Claim] = MappingProxyType({claim.id: claim for paper in PAPERS for claim in paper.CLAIMS})
EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType({one.id: one for paper in PAPERS for one in paper.EXPERIMENTS})


def find_claims(names: Sequence[str] = ()) -> list[Claim]:
    """The claims of these names; all if none is given. The name of a paper, ``garcin-2022``, stands for all of its claims.

    >>> [claim.paper for claim in find_claims(["garcin-2023-two-head"])]
    ['garcin-2023']
    """
    found: dict[str, Claim] = {}
    for name in names:
        of_paper = [claim for claim in CLAIMS.values() if claim.paper == name]
        if name not in CLAIMS and not of_paper:
            known = [*CLAIMS, *dict.fromkeys(claim.paper for claim in CLAIMS.values())]
            raise InputError(f"claim: {expected_one_of(name, known, 'shortlist reproduce --list')}; got {shown(name)}")
        found |= {claim.id: claim for claim in ([CLAIMS[name]] if name in CLAIMS else of_paper)}
    return list(found.values()) if names else list(CLAIMS.values())


def verdicts(claim: Claim, results: Results, *, quick: bool = False) -> list[Verdict]:
    """The verdict of each experiment of a claim, by the results there are.

    Args:
        claim: the claim.
        results: where they are.
        quick: only of experiments of the quick suite.
    """
    found = []
    for name in claim.experiments:
        experiment = EXPERIMENTS[name]
        if quick and not experiment.quick:
            continue
        used = [result for result in results.of(experiment) if result.arm in claim.arms()]
        machines = tuple(dict.fromkeys(result.machine for result in used))
        seconds = sum(result.seconds for result in used)
        found.append(judge(claim, name, by_seed(used), seconds=seconds, machines=machines))
    return found
