"""What 300 million pictures of 43,000 classes would take, by a simulation of the pool that is checked against real runs.

``python -m benchmarks capacity`` takes ten minutes of two cores, with Ray; the machine should be quiet.
"""

import heapq
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import RESULTS, record
from benchmarks.marked_tables import write_table
from benchmarks.results_files import foot, newest
from shortlist import Predictions, cluster
from shortlist.cluster.rows import RANGES_PER_WORKER
from shortlist.data import Split
from shortlist.links import Softmax
from shortlist.models import Classifier, InputSpec, Network
from shortlist.predictions import ShardedWriter
from shortlist.retrieval import Index
from shortlist.retrieval.building import SEGMENT_GROUPS
from shortlist.retrieval.segments import group_rows
from shortlist.runs.part_scoring import Saved, part_rows, score_parts
from shortlist.sets import average_k

NAME, PAGE = "capacity", "cluster.md"
BEGIN, END = "<!-- capacity: written by `python -m benchmarks page` -->\n", "<!-- end of capacity -->\n"
CLASSES, ROWS, BATCH = 43_000, 300_000_000, 256
SMALL = (2_000, 4_000)  # rows of the runs that the simulation is checked against
EMPTY = 2_000  # tasks that do nothing
INDEXED, INDEX_LABELS = 80_000, 1_000  # rows and labels
FEATURES, SCORED = 16, (1_024, 6_144)  # of a linear classifier, and rows: two parts and twelve
ROUNDS = 2  # of a fit on float32
PICTURE_BYTES = 60_000
ASKED_FOR = 80  # labels of an index of all pictures
GPU_HOUR, CORE_HOUR, TERABYTE_MONTH = 3.0, 0.05, 20.0  # US dollars, an assumption
STORAGE = 20e9  # bytes a second of shared storage, an assumption
CORES_PER_GPU = 16


@dataclass(frozen=True)
class Cluster:
    """What a simulation needs to know.

    Args:
        workers: that take tasks.
        handling: seconds that the process which hands out tasks spends on each.
        bandwidth: bytes a second that all workers together can read or write.
    """

    workers: int
    handling: float
    bandwidth: float = float("inf")

    def seconds(self, tasks: int, each: float, size: float = 0.0) -> float:
        """How long tasks of ``each`` seconds and ``size`` bytes take.

        A worker holds two tasks; the second begins at once, the third when the answer to the first has been handled.
        """
        free = [(0.0, 0.0)] * self.workers  # when a worker begins its next task, and when its last answer was handled
        storage = handler = 0.0
        for _ in range(tasks):
            begin, before = heapq.heappop(free)
            storage = max(begin, storage) + size / self.bandwidth
            end = max(begin + each, storage)
            handler = max(handler, end) + self.handling
            heapq.heappush(free, (max(end, before), handler))
        return handler


def run() -> None:
    """Measure rates of one core, check the simulation on runs with one and two workers, and record both."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rates = {"write": _written(folder / "first", SMALL[0])}
        _written(folder / "second", SMALL[1])
        rates |= _indexed(folder)
        model, inputs = _model(folder / "classifier"), torch.randn(SCORED[1], FEATURES)
        rates["score"] = _scored(folder / "by one process", model, inputs[: SCORED[0]])
        parts = [folder / "first", folder / "second"]
        checks = []
        for workers in (1, 2):
            with cluster.pool(workers=workers) as pool:
                rates["handling"] = _handling(pool)
                checks += _other_checks(pool, rates, folder / f"{workers} workers", model, inputs)
                for place, rows in zip(parts, SMALL, strict=True):
                    scores = rows * CLASSES
                    given = cluster.Rows.at(place)
                    cluster.fit(pool, average_k(5), given)  # the files are open, and what they hold is in the cache
                    taken = min(
                        _seconds(lambda pool=pool, given=given: cluster.fit(pool, average_k(5), given)) for _ in range(3)
                    )
                    if (workers, rows) == (1, SMALL[0]):  # all that the simulation is told
                        rates["read"] = ROUNDS * scores / taken
                    tasks = RANGES_PER_WORKER * workers
                    each = scores / rates["read"] / tasks
                    simulated = ROUNDS * Cluster(workers, rates["handling"]).seconds(tasks, each)
                    checks.append({"what": "fit", "workers": workers, "rows": rows, "measured": taken, "simulated": simulated})
        for check in checks:
            print(check)
    record(NAME, f"fits on scores of {CLASSES:,} classes in parts", {"rates": rates, "checks": checks})


def _written(folder: Path, rows: int) -> float:
    """Scores in parts; scores a second of processor time."""
    size = part_rows(CLASSES, BATCH)
    generator = torch.Generator().manual_seed(0)
    like = Predictions(torch.zeros(1, CLASSES), classes=[str(label) for label in range(CLASSES)], link="softmax", ids=["0"])
    starts = range(0, rows, size)
    seconds = 0.0
    with ShardedWriter(folder, like, [str(start) for start in starts]) as writer:
        for number, start in enumerate(starts):
            count = min(size, rows - start)
            block = Predictions(
                torch.randn(count, CLASSES, generator=generator), ids=[f"{start + row}" for row in range(count)]
            )
            begin = time.process_time()
            writer.write(number, block)
            seconds += time.process_time() - begin
        writer.finish()
    return rows * CLASSES / seconds


def segment_rows(labels: int) -> int:
    """Rows of a segment that a worker writes."""
    return SEGMENT_GROUPS * group_rows(labels)


def _to_index(rows: int) -> Predictions:
    return Predictions(torch.randn(rows, INDEX_LABELS, generator=torch.Generator().manual_seed(0)), link="sigmoid")


def _indexed(folder: Path) -> dict[str, float]:
    """Scores a second while an index is built, and bytes that it takes for each."""
    predictions = _to_index(INDEXED // 2)
    seconds = min(_seconds(lambda name=name: Index.build(predictions, folder / name)) for name in ("first index", "index"))
    size = sum(path.stat().st_size for path in (folder / "index").rglob("*") if path.is_file())
    return {"index": predictions.scores.numel() / seconds, "index_bytes": size / predictions.scores.numel()}


def _model(folder: Path) -> Saved:
    """A linear classifier of all classes, whose weights do not matter."""
    inputs = InputSpec("features", FEATURES, (0.0,) * FEATURES, (1.0,) * FEATURES)
    names = [str(label) for label in range(CLASSES)]
    Classifier(Network("mlp-8", "linear", inputs, CLASSES).eval(), names, link=Softmax()).save(folder)
    return Saved(folder, "cpu")


def _rows(inputs: torch.Tensor) -> Split:
    return Split(inputs, None, [str(row) for row in range(len(inputs))])


def _scored(folder: Path, model: Saved, inputs: torch.Tensor) -> float:
    """Scores a second while rows are scored into parts."""
    score_parts(folder / "warm", model, _rows(inputs), batch_size=BATCH)
    return len(inputs) * CLASSES / _seconds(lambda: score_parts(folder / "again", model, _rows(inputs), batch_size=BATCH))


def _other_checks(
    pool: cluster.Pool, rates: dict[str, float], folder: Path, model: Saved, inputs: torch.Tensor
) -> list[dict[str, Any]]:
    """Scoring and an index by these workers, beside what the simulation says."""
    here, size = Cluster(pool.size, rates["handling"]), part_rows(CLASSES, BATCH)
    _to_index(INDEXED).save(folder.with_suffix(".safetensors"))
    to_index = cluster.Rows.at(folder.with_suffix(".safetensors"))
    score_parts(folder / "warm", model, _rows(inputs), batch_size=BATCH, each=pool.each, threads=1)  # all workers load it
    scoring = _seconds(
        lambda: score_parts(folder / "scores", model, _rows(inputs), batch_size=BATCH, each=pool.each, threads=1)
    )
    indexing = _seconds(lambda: cluster.build_index(pool, to_index, folder / "index"))
    in_segment = segment_rows(INDEX_LABELS)
    parts, segments = -(-len(inputs) // size), -(-INDEXED // in_segment)
    return [
        {"what": what, "workers": pool.size, "rows": rows, "measured": measured, "simulated": here.seconds(tasks, each)}
        for what, rows, measured, tasks, each in (
            ("scoring", len(inputs), scoring, parts, size * CLASSES / rates["score"]),
            ("index", INDEXED, indexing, segments, in_segment * INDEX_LABELS / rates["index"]),
        )
    ]


def _handling(pool: cluster.Pool) -> float:
    """Seconds that a task which does nothing takes of the process that hands it out."""
    for _ in pool.each(_nothing, [b""] * 100):
        pass
    begin = time.process_time()
    for _ in pool.each(_nothing, [bytes(10_000)] * EMPTY):
        pass
    return (time.process_time() - begin) / EMPTY


def _nothing(task: bytes) -> bytes:
    return task


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def gpu_rate() -> float:
    """Pictures a second from JPEG files to sets on one H200 and 16 cores, as recorded."""
    lines = [json.loads(line) for line in (RESULTS / "classifying.jsonl").read_text().splitlines()]
    line = next(line for line in reversed(lines) if "resnet50" in line["setting"])
    return float(1e3 * line["rows"] / line["contenders"]["JPEG files to sets"]["median_ms"])


def estimates(rates: dict[str, float]) -> list[dict[str, Any]]:
    """Hours and money for clusters of several sizes."""
    scores, size = ROWS * CLASSES, part_rows(CLASSES, BATCH)
    found = []
    for gpus in (1, 8, 32, 128):
        here = Cluster(gpus, rates["handling"], STORAGE)
        written = 4.06 * size * CLASSES
        # The next batch is decoded and scored while a part is written: the slower of the two counts.
        each = max(size / gpu_rate(), size * CLASSES / rates["write"])
        scoring = here.seconds(-(-ROWS // size), each, written + size * PICTURE_BYTES) / 3600
        cores = gpus * CORES_PER_GPU
        readers = Cluster(cores, rates["handling"], STORAGE)
        tasks = RANGES_PER_WORKER * cores
        fitting = ROUNDS * readers.seconds(tasks, scores / rates["read"] / tasks, 4.06 * scores / tasks) / 3600
        in_segment = segment_rows(ASKED_FOR) * ASKED_FOR
        moved = in_segment * (4.06 + rates["index_bytes"])
        indexing = readers.seconds(-(-ROWS * ASKED_FOR // in_segment), in_segment / rates["index"], moved) / 3600
        money = (scoring * gpus * GPU_HOUR, fitting * cores * CORE_HOUR, indexing * cores * CORE_HOUR)
        found.append({"gpus": gpus, "scoring": scoring, "fitting": fitting, "indexing": indexing, "money": money})
    return found


def table() -> str:
    """The table of the page; empty without results."""
    lines = newest(NAME)
    if not lines:
        return ""
    line = lines[-1]
    rates = line["rates"]
    rows = [
        "| GPUs, with 16 cores each | scoring | money | one threshold on all rows | money "
        f"| an index of {ASKED_FOR} labels | money |",
        "|---:|" + "---:|" * 6,
    ]
    for one in estimates(rates):
        hours = (_hours(one[name]) for name in ("scoring", "fitting", "indexing"))
        cells = (f"{time} | ${price:,.0f}" for time, price in zip(hours, one["money"], strict=True))
        rows.append(f"| {one['gpus']} | {' | '.join(cells)} |")
    ratios = [check["simulated"] / check["measured"] for check in line["checks"]]
    checks = ", ".join(
        f"{check['what']} {check['workers']} × {check['rows']:,}: {check['measured']:.1f} s, {check['simulated']:.1f} s"
        for check in line["checks"]
    )
    storage = 4.06 * ROWS * CLASSES / 1e12
    text = [
        f"Scores take {storage:,.0f} TB (4.06 bytes each, measured), which cost ${storage * TERABYTE_MONTH:,.0f} a month.",
        f"Rates: {gpu_rate():,.0f} pictures a second from JPEG files on one H200 and 16 cores (ResNet-50, 224 pixels);",
        f"of one core here {rates['write'] / 1e6:,.0f} million scores a second written and",
        f"{rates['read'] / 1e6:,.0f} million read for a round of a fit,",
        f"{rates['index'] / 1e6:.1f} million indexed at {rates['index_bytes']:.0f} bytes each",
        f"({ROWS * ASKED_FOR * rates['index_bytes'] / 1e12:.1f} TB for {ASKED_FOR} labels, from scores of these alone), and",
        f"{1e3 * rates['handling']:.2f} ms for each task. Assumed: shared storage of {STORAGE / 1e9:.0f} GB/s, pictures of",
        f"{PICTURE_BYTES / 1e3:.0f} kB, ${GPU_HOUR:g} an hour for a GPU with its cores, ${CORE_HOUR:g} for a core alone, and",
        f"${TERABYTE_MONTH:g} a month for a terabyte. The simulation, told the rate of one process (for fits, of one worker on",
        f"{SMALL[0]:,} rows), against runs (workers × rows: measured, simulated): {checks}; simulated over",
        f"measured {min(ratios):.2f} to",
        f"{max(ratios):.2f}. It does not know that workers here share",
        "their cores with the process that hands out the work, and one",
        "disk: where it is below 1, take the hours above as the least.",
    ]
    return "\n".join([*rows, "", *text, "", foot(line)])


def _hours(hours: float) -> str:
    if hours < 1 / 60:
        return "< 1 min"
    return f"{hours * 60:,.0f} min" if hours < 2 else f"{hours:,.0f} h" if hours < 72 else f"{hours / 24:,.0f} days"


def write() -> None:
    """Put the table into its page."""
    write_table(PAGE, table(), BEGIN, END)
