from .claim import (
    AtLeast as AtLeast,
    Claim as Claim,
    Interval as Interval,
    Part as Part,
    Verdict as Verdict,
    Within as Within,
    judge as judge,
)
from .experiment import Arm as Arm, Experiment as Experiment
from .menu import find_claims as find_claims, verdicts as verdicts
from .results import Result as Result, Results as Results
from .running import missing_tasks as missing_tasks, run_tasks as run_tasks
from .statistic import Number as Number, Statistic as Statistic, difference as difference, slope as slope
