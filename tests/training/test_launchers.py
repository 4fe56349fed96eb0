"""torchrun and accelerate start their processes again after one was killed, and the run ends as it would have."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from safetensors.torch import load_file

from tests import warm
from tests.training.small import same
from tests.training.test_resume_auto import content

ROOT = str(Path(__file__).parents[2])
TINY = "flora:species=8,genera=2,train=120,val=60,test=40,size=8"
TRAIN = ["train", TINY, "-k", "2", "--backbone", "plain-8", "--epochs", "30", "--set", "batch_size=16", "--device", "cpu"]
TRAIN += ["--no-tensorboard", "--resume", "auto", "--out"]
COMMAND = "import runpy; runpy.run_module('shortlist', run_name='__main__')"

# One process kills itself before a step of the first attempt.
PROGRAM = """
import os, signal, sys
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
from shortlist.training.loop import Loop
from tests.training.small import run
from tests.training.test_resume_auto import SETTINGS
killed, at = int(sys.argv[3]), int(sys.argv[4])
step = Loop._step

def die(self, number, *others):
    if (os.environ.get("TORCHELASTIC_RESTART_COUNT"), int(os.environ["RANK"]), number) == ("0", killed, at):
        os.kill(os.getpid(), signal.SIGKILL)
    step(self, number, *others)

Loop._step = die
run(sys.argv[2], resume="auto", **SETTINGS)
"""


def in_two(code, *arguments):
    """Run a program in two processes to its end, without a launcher; what the first prints, and its messages."""
    programs = warm.together(2, code, *arguments)
    found = [program.communicate() for program in programs]
    assert [program.wait() for program in programs] == [0, 0], found
    return found[0]


def same_weights(one, other):
    return same(*(load_file(folder / "classifier" / "model.safetensors") for folder in (one, other)))


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """A run in two processes that nothing happened to."""
    folder = tmp_path_factory.mktemp("calm") / "run"
    in_two(PROGRAM, ROOT, folder, 2, 0)
    return folder


@pytest.fixture(scope="module")
def calm_command(tmp_path_factory):
    """The same, by the program."""
    folder = tmp_path_factory.mktemp("calm") / "run"
    in_two(COMMAND, *TRAIN, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("killed", "at"), [(0, 13), (1, 6)])
def test_torchrun_recovers_from_the_death_of_any_process(tmp_path, calm, killed, at):
    (tmp_path / "program.py").write_text(PROGRAM)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "3"]
    command = [*launcher, tmp_path / "program.py", ROOT, tmp_path / "run", killed, at]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "exitcode: -9" in done.stderr
    assert same_weights(calm, tmp_path / "run")


def launched(command, folder):
    """The exit code and the messages of a launcher, whose second process is killed after the first epoch."""
    lines = []
    variables = dict(os.environ, OMP_NUM_THREADS="1")
    how = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "cwd": folder, "env": variables}
    with subprocess.Popen(command, **how) as child:
        for line in child.stderr:
            lines.append(line)
            if line.startswith("epoch  1") and lines.count("killed") == 0:
                (second,) = (one for one in psutil.Process(child.pid).children() if one.environ().get("RANK") == "1")
                second.send_signal(signal.SIGKILL)
                lines.append("killed")
    return child.returncode, "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
def test_the_command_recovers_and_then_says_that_it_has_finished(tmp_path, calm_command, launcher):
    """Killed before its first checkpoint, which the program writes after thirty seconds: it begins again."""
    start = {
        "torchrun": "-m torch.distributed.run --standalone --nproc-per-node 2 --max-restarts 3",
        "accelerate": "-m accelerate.commands.launch --multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no "
        f"--dynamo_backend no --max_restarts 3 --main_process_port {warm._free_port()}",
    }
    code, errors = launched([sys.executable, *start[launcher].split(), "-m", "shortlist", *TRAIN, "run"], tmp_path)
    assert code == 0, errors[-3000:]
    assert errors.count("killed") == 1
    assert errors.count("no checkpoint yet: training starts from the beginning") == 1
    assert same_weights(calm_command, tmp_path / "run")
    before = content(tmp_path / "run")
    _, errors = in_two(COMMAND, *TRAIN, tmp_path / "run")
    assert "training had already finished: nothing is left to do" in errors
    assert content(tmp_path / "run") == before
