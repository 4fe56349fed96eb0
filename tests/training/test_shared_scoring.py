"""Rows that two processes divide among them, to decode or to score: all come back, in order, and to both."""

import pytest
import torch
from PIL import Image

from shortlist.data import sharpness
from shortlist.data.pictures import PictureFiles
from shortlist.models import InputSpec, Network
from shortlist.training.loaded_data import _opened
from shortlist.training.row_sources import HostRows, StreamedRows
from shortlist.training.scoring import score_rows
from tests import warm
from tests.training.small import CLASSES, pictures

SIDE, FILES, BATCH = 8, 9, 2
COUNTS = [0, 1, 2, 7, 8]  # rows in memory: none for either process, none for the second, as many or one more for the first
UNREADABLE = {"none": [], "few of the first": [0, 3], "all of the first": [0, 1, 2, 3, 4], "all of the second": [5, 6, 7, 8]}
CPU = torch.device("cpu")


def network():
    torch.manual_seed(0)
    return Network("plain-8", "linear", InputSpec.pictures(SIDE), CLASSES)


def files(folder, case):
    return PictureFiles(folder / case, [f"{number}.png" for number in range(FILES)])


def write(folder):
    images = pictures(FILES)[0]
    for case, unreadable in UNREADABLE.items():
        (folder / case).mkdir()
        for number, image in enumerate(images):
            path = folder / case / f"{number}.png"
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
            if number in unreadable:
                path.write_bytes(b"no picture")


def found(folder):
    """Rows of every case with scores, numbers and quality, and the rows that can be opened with the problems of the others."""
    scorer = network()
    sources = {count: HostRows(*pictures(count), CPU) for count in COUNTS}
    sources |= {
        case: StreamedRows(files(folder, case), pictures(FILES)[1], CPU, SIDE, "crop", workers=0) for case in UNREADABLE
    }
    scored = {
        (case, quality): tuple(score_rows(scorer, rows, batch_size=BATCH, dtype=None, quality=quality))
        for case, rows in sources.items()
        for quality in (None, "sharpness")
    }
    opened = {case: _opened(files(folder, case), SIDE, "crop", None, 1.0)[1:3] for case in UNREADABLE}
    where = {case: (rows.tolist(), [problem.where for problem in problems]) for case, (rows, problems) in opened.items()}
    return {"scored": scored, "opened": where}


def _one_process(rank, folder):
    with warm.one_of_two(rank, str(folder / "store")):
        torch.save(found(folder), folder / f"found{rank}.pt")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("shared")
    write(folder)
    warm.two_processes(_one_process, folder)
    return [torch.load(folder / f"found{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("quality", [None, "sharpness"])
@pytest.mark.parametrize("case", [*COUNTS, *UNREADABLE])
def test_scores_and_quality_are_those_of_one_process(both, case, quality):
    scorer = network().eval()
    images = pictures(case if case in COUNTS else FILES)[0]
    expected = [row for row in range(len(images)) if row not in UNREADABLE.get(case, [])]
    for result in both:
        scores, numbers, measured = result["scored"][case, quality]
        assert numbers.tolist() == expected
        if expected:
            with torch.no_grad():
                wanted = scorer(scorer.inputs.prepare(images[expected]))
            torch.testing.assert_close(scores, wanted, rtol=1e-5, atol=1e-5)
        assert len(scores) == len(expected)
        assert (measured is None) == (quality is None)
        if measured is not None:
            assert measured.dtype == torch.float64
            assert torch.equal(measured, sharpness(images[expected]) if expected else measured.new_zeros(0))


@pytest.mark.parametrize("case", UNREADABLE)
def test_rows_that_can_be_opened_and_problems_come_from_both_processes(both, case):
    lost = UNREADABLE[case]
    for result in both:
        rows, problems = result["opened"][case]
        assert rows == [row for row in range(FILES) if row not in lost]
        assert [problem.endswith(f"{row}.png") for problem, row in zip(problems, lost, strict=True)] == [True] * len(lost)
