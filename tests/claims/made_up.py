"""Experiments that compute nothing much: functions at the top level, which other processes can find."""

import signal
import time
from pathlib import Path

from shortlist.claims.claim import Claim, Part
from shortlist.claims.experiment import Arm, Experiment
from shortlist.claims.statistic import difference
from shortlist.errors import InputError


def shifted(settings, seed, folder):
    return {"score": settings["level"] + 0.1 * seed}


def broken(settings, seed, folder):
    raise InputError("level: expected a number, got a broken arm")


def crashing(settings, seed, folder):
    return {"score": 1 / 0}


def endless(settings, seed, folder):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a training answers it with a checkpoint
    Path(settings["begun"]).touch()
    time.sleep(600)


def patient(settings, seed, folder):
    while not Path(settings["begun"]).exists():
        time.sleep(0.01)
    return {"score": 1.0}


def interrupted(settings, seed, folder):
    raise KeyboardInterrupt


GOOD = {"high": Arm(shifted, {"level": 2.0}), "low": Arm(shifted, {"level": 1.0})}
EXPERIMENT = Experiment("made-up", "two constants", GOOD, seeds=3)
CLAIM = Claim(
    "made-up-higher", "beyond", "", "High is higher.", (Part("score", difference("high", "low", "score")),), ("made-up",)
)
