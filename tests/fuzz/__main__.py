"""The command line of the batteries."""

import argparse
import sys
import time

from tests.fuzz.runner import BATTERIES, failure, try_all


def main() -> int:
    """Run batteries for a time, or one case again; the exit status is 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("batteries", nargs="*", help=f"which: {', '.join(BATTERIES)}; all by default", metavar="BATTERY")
    parser.add_argument("--seconds", type=float, default=600, help="how long in all (default: 600)")
    parser.add_argument("--seed", type=int, help="default: drawn from the clock, and printed")
    parser.add_argument("--case", type=int, help="try only this case of each battery")
    given = parser.parse_args()
    unknown = sorted(set(given.batteries) - set(BATTERIES))
    if unknown:
        parser.error(f"no battery {unknown[0]!r}: expected some of {', '.join(BATTERIES)}")
    seed = time.time_ns() % 10**9 if given.seed is None else given.seed
    chosen = given.batteries or list(BATTERIES)
    if given.case is None:
        return try_all(chosen, seed, given.seconds)
    found = [failure(name, seed, given.case) for name in chosen]
    print(*(text or "passed" for text in found), sep="\n")
    return int(any(found))


if __name__ == "__main__":
    sys.exit(main())
