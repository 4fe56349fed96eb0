"""Problems with files: one line each, with the path, and a summary.

A reader neither stops at the first bad file nor hides it: it records a :class:`Problem` and goes on. Whether too many files
failed is decided once, by :func:`check_tolerance`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shortlist.checks import share
from shortlist.errors import InputError
from shortlist.words import counted, printable

LEFT_OUT = "left out"  # how the text of a problem ends that cost a row
BLANKS = "blanks around a label"
LABELS_NOT_USED = "labels not used"  # the kind of a problem with labels that are not required


@dataclass(frozen=True)
class Problem:
    """A problem with a file or a row: its kind, where it is, and what was done about it.

    >>> print(Problem("unreadable picture", "oak/7.jpg", "cut short: left out"))
    oak/7.jpg: cut short: left out
    """

    kind: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{printable(self.where)}: {self.what}"

    @property
    def left_out(self) -> bool:
        """Whether a row was left out because of it."""
        return self.what.endswith(LEFT_OUT)


def first_of(problems: Sequence[Problem]) -> str:
    """The end of a message that nothing could be used: the first problem, where there is one.

    >>> first_of([Problem("absent picture", "oak.jpg", "there is no such file: left out")])
    '; the first is oak.jpg: there is no such file: left out'
    """
    return f"; the first is {problems[0]}" if problems else ""


def count_problems(problems: Iterable[Problem]) -> dict[str, int]:
    """The number of problems of each kind, in order of first appearance."""
    return dict(Counter(problem.kind for problem in problems))


def problem_lines(problems: Sequence[Problem], most: int = 10) -> list[str]:
    """One line for each problem, at most ``most`` of each kind, followed by the number of others.

    >>> twice = [Problem("empty class", "ash", "holds no picture"), Problem("empty class", "elm", "holds no picture")]
    >>> print(*problem_lines(twice, most=1), sep="\\n")
    ash: holds no picture
    … and 1 more of this kind (empty class)
    """
    lines: list[str] = []
    for kind, count in count_problems(problems).items():
        of_kind = [problem for problem in problems if problem.kind == kind]
        lines += [str(problem) for problem in of_kind[:most]]
        if count > most:
            lines.append(f"… and {count - most:,} more of this kind ({kind})")
    return lines


def summarise_problems(problems: Sequence[Problem]) -> str:
    """One sentence with the number of problems of each kind.

    >>> summarise_problems([Problem("empty class", "ash", "holds no picture")])
    '1 problem: empty class 1'
    """
    counts = ", ".join(f"{kind} {count:,}" for kind, count in count_problems(problems).items())
    return f"{counted(len(problems), 'problem')}: {counts}" if problems else "no problems"


def describe_problems(problems: Sequence[Problem], most: int = 3) -> str:
    """The summary, followed by the first problems of each kind, as one sentence.

    >>> describe_problems([Problem("empty class", "ash", "holds no picture")])
    '1 problem: empty class 1 (ash: holds no picture)'
    """
    return f"{summarise_problems(problems)} ({'; '.join(problem_lines(problems, most))})" if problems else "no problems"


def check_tolerance(
    failures: Sequence[Problem], total: int, tolerance: float, things: str = "pictures", *, advice: str | None = None
) -> None:
    """Raise an error if a larger share than ``tolerance`` could not be used; the message names the first failure.

    Args:
        failures: what could not be used.
        total: how many there were.
        tolerance: the share that may fail.
        things: what they are.
        advice: what to do; by default to repair or remove them, or to raise the tolerance.
    """
    share("tolerance", tolerance)
    # A quotient rather than a product: 0.29 · 100 is less than 29 in floating point.
    if failures and (not total or len(failures) / total > tolerance):
        raise InputError(
            f"{len(failures):,} of {total:,} {things} could not be used, more than the tolerated {tolerance:.1%}; "
            f"the first is {failures[0]}; {advice or f'repair or remove such {things}, or raise the tolerance'}"
        )
