"""docs/benchmarks.md, written from the newest result of every setting."""

from pathlib import Path
from typing import Any

from benchmarks import gpu_page, label_links_table, linear_page, links_table, peers_table, query_kinds_table
from benchmarks.results_files import foot, newest, ratio

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
HEAD = """# Speed and memory

Written by `python -m benchmarks page` from `benchmarks/results`; `make benchmarks` measures anew.
Contenders take turns in one process, round after round; a time is the median of the rounds with their range, and the
ratio is the median over rounds of theirs to ours: above 1 they are slower. Losses run twice in each turn and the second
time counts, as in a training loop.
"""
NOTES = """Below 1: `torch.sum` is one read of the matrix, the floor of any threshold. `top-k:5` is `torch.topk` and the
writing of as many booleans as there are scores, so on long rows it cannot be faster; the rules with a threshold are one
comparison.
"""
TITLES = {
    "average-k-threshold": "The average-k threshold",
    "set-prediction": "Sets from probabilities",
    "conformal-lac": "LAC: fit and sets",
    "conformal-aps": "APS: fit and sets",
    "temperature": "Temperature scaling",
    "calibration-error": "Calibration error",
    "mean-average-precision": "Mean average precision",
    "sparse-top": "Projection onto the top-k simplex",
    "transforms": "Crops, flips and sizes of batches",
    "vote-adaptive": "Labels from votes, adaptive weights",
    "vote-majority": "Labels from votes, plain majority",
    "flora-pictures": "Drawing Flora",
    "training-loop": "An epoch of training",
    "classifying": "A classifier at work",
    "retrieval-map": "mAP over all combined queries",
}
AGAINST_FIRST = {
    "topk-losses": ("Top-k losses", "Forward and backward, as multiples of `F.cross_entropy` in the same rounds."),
    "losses": ("Every loss", "The same, of each loss at its defaults."),
    "epoch-time": (
        "The loss in an epoch",
        "40 steps of training, DenseNet 40-40, batches of 64 pictures of 32 pixels, 100 classes, bfloat16 and compiled; as "
        "multiples of the same steps with cross-entropy in the same rounds (Garcin et al. 2022, figure 3: 1.046 for B = 3 and "
        "1.246 for the smooth hinge, both at k = 5).",
    ),
    "training-methods": (
        "The method in an epoch",
        "Our loop: augmentation, network and loss in one recorded graph; seconds of an epoch as multiples of cross-entropy's.",
    ),
    "label-pairs": ("Label pairs", "Forward and backward, as multiples of BCE in the same rounds."),
}


def text() -> str:
    parts = [
        HEAD,
        _glance(),
        peers_table.section(),
        *(_race(name, title) for name, title in TITLES.items()),
        *map(_costs, AGAINST_FIRST),
        gpu_page.section(),
        linear_page.section(),
        _noised_memory(),
        _variance(),
        _sparsity(),
        _stream(),
        _merging(),
        _decoding(),
        _vote_accuracy(),
        _big_file(),
        _searching(),
        query_kinds_table.section(),
        links_table.section(),
        label_links_table.section(),
        _serving(),
        _imports(),
    ]
    return "\n".join(part for part in parts if part)


def write() -> None:
    PAGE.write_text(text(), encoding="utf-8")


def _glance() -> str:
    """All ratios in one table."""
    rows = ["## At a glance", "", "| task | setting | ours, ms | rival | ratio |", "|---|---|---:|---|---:|"]
    for name, title in TITLES.items():
        for line in newest(name):
            first, *rivals = line["contenders"].items()
            ours = f"{first[1]['median_ms']:.2f}"
            rows += [f"| {title} | {line['setting']} | {ours} | {rival} | {n['ratio']:.2f} |" for rival, n in rivals]
    return "\n".join([*rows, "", NOTES])


def _race(name: str, title: str) -> str:
    parts = []
    for line in newest(name):
        rows = [f"### {line['setting']}", "", "| | median, ms | range, ms | ratio to ours |", "|---|---:|---:|---:|"]
        for contender, n in line["contenders"].items():
            rows.append(f"| {contender} | {n['median_ms']:.2f} | {n['low_ms']:.2f}–{n['high_ms']:.2f} | {n['ratio']:.2f} |")
        parts.append("\n".join([*rows, "", foot(line)]))
    return f"## {title}\n\n" + "\n".join(parts) if parts else ""


def _costs(name: str) -> str:
    """Ratios to the first contender, one row for each setting."""
    lines = newest(name)
    if not lines:
        return ""
    title, caption = AGAINST_FIRST[name]
    others = list(dict.fromkeys(other for line in lines for other in list(line["contenders"])[1:]))
    if len(lines) == 1:
        first, *rest = lines[0]["contenders"].items()
        rows = [
            f"| {lines[0]['setting']} | median, ms | ratio |",
            "|---|---:|---:|",
            f"| {first[0]} | {first[1]['median_ms']:.2f} | 1 |",
        ]
        rows += [f"| `{other}` | {n['median_ms']:.2f} | {ratio(n['ratio'])} |" for other, n in rest]
    else:
        base = next(iter(lines[0]["contenders"]))
        rows = ["| " + " | ".join(["", f"{base}, ms", *others]) + " |", "|---|" + "---:|" * (len(others) + 1)]
        for line in lines:
            found = [ratio(line["contenders"][other]["ratio"]) if other in line["contenders"] else "" for other in others]
            rows.append("| " + " | ".join([line["setting"], f"{line['contenders'][base]['median_ms']:.2f}", *found]) + " |")
    return "\n".join([f"## {title}", "", caption, "", *rows, "", foot(lines[-1])])


def _searching() -> str:
    """Queries over an index: the race, and how it grows."""
    lines = newest("searching")
    if not lines:
        return ""
    rows = [
        "## Searching an index",
        "",
        "The best 20 rows of a query of five labels, another one every round, which was asked once before; the index is open "
        "and its files are in the system's memory. *Read*: groups of 131,072 rows that had to be read, of all.",
        "",
        "| setting | contender | median, ms | range, ms | ratio to ours | built in, s | read | peak memory, MB |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for line in lines:
        read = f"{line['read']:.0f} of {line['groups']}" if "read" in line else ""
        built = f"{line['build_seconds']:.1f}" if "build_seconds" in line else ""
        memory = f"{line['peak_memory_mb']:.0f}" if "peak_memory_mb" in line else ""
        for place, (contender, n) in enumerate(line["contenders"].items()):
            extra = [built, read, memory] if place == 0 else ["", "", ""]
            times = [f"{n['median_ms']:.1f}", f"{n['low_ms']:.1f}–{n['high_ms']:.1f}", f"{n['ratio']:.1f}"]
            rows.append("| " + " | ".join([line["setting"] if place == 0 else "", contender, *times, *extra]) + " |")
    return "\n".join([*rows, "", foot(lines[-1])])


def _noised_memory() -> str:
    lines = newest("noised-memory")
    if not lines:
        return ""
    rows = ["## Memory of the noised hinge", "", "The most beyond the scores, 5 draws, as a multiple of the scores.", ""]
    rows += ["| | times the scores |", "|---|---:|", *(f"| {n['setting']} | {n['extra_over_scores']:.2f} |" for n in lines)]
    return "\n".join([*rows, "", foot(lines[-1])])


def _variance() -> str:
    lines = newest("gradient-variance")
    if not lines:
        return ""
    rows = ["## Gradients of the smoothed k-th largest", ""]
    rows += [
        "Variance and squared bias of the gradient against that of the exact expectation, as shares of its squared length.",
        "",
    ]
    rows += ["| | variance | squared bias | ms |", "|---|---:|---:|---:|"]
    rows += [
        f"| {n['setting']} | {n['variance']:.3f} | {max(0.0, n['bias'] - n['variance'] / n['draws']):.4f} | {n['ms']:.2f} |"
        for n in lines
    ]
    return "\n".join([*rows, "", foot(lines[-1])])


def _sparsity() -> str:
    lines = newest("gradient-sparsity")
    if not lines:
        return ""
    first = lines[0]
    rows = [
        "## Coordinates of the gradient that are not zero",
        "",
        f"Mean over the {first['rows']:,} rows of the first epoch of CIFAR-100, {first['backbone']}, k = {first['k']}, "
        f"{first['samples']} draws, {first['classes']} classes (Garcin et al. 2022, figure 2: about 4 for a large ε), and the "
        "top-5 accuracy on the training batches of that epoch.",
        "",
        "| | not zero | training top-5 |",
        "|---|---:|---:|",
        *(f"| {n['setting']} | {n['nonzero']:.2f} | {n['training top-5']:.1f} |" for n in lines),
    ]
    return "\n".join([*rows, "", foot(lines[-1])])


def _stream() -> str:
    lines = newest("average-k-stream")
    if not lines:
        return ""
    rows = ["## A stream that does not fit in memory", "", "The average-k threshold from batches, k = 5.", ""]
    rows += ["| | seconds | reads of the source | memory beyond a batch, MB | ns an entry |", "|---|---:|---:|---:|---:|"]
    for n in lines:
        rows.append(
            f"| {n['setting']} | {n['seconds']:.2f} | {n['reads']:.2f} | {n['extra_memory_mb']:.1f} | {n['ns_per_entry']:.2f} |"
        )
    hours = lines[-1]["ns_per_entry"] * 1e-9 * 12e6 * 43_000 / 3600
    rows += ["", f"At the last slope 12 million × 43,000 take {hours:.2f} hours of computing, reading the source aside."]
    return "\n".join([*rows, "", foot(lines[-1])])


def _merging() -> str:
    lines = newest("merging")
    if not lines:
        return ""
    rows = [
        "## Thresholds by merging",
        "",
        "Rules fitted on shards by messages, one shard after the other, and on all rows at once, in turns; the thresholds are "
        "equal to the last bit. Rounds are those of the threshold; one more measures the sizes of the sets. An answer is "
        "what a shard sends in a round, a question what it is sent. Processor time of one thread.",
        "",
        "| | rounds | largest answer, kB | largest question, kB | all at once, ms | shards, as multiple |",
        "|---|---:|---:|---:|---:|---:|",
        *(
            f"| {n['setting']} | {n['fit_rounds']} | {n['largest_answer'] / 1e3:.1f} | {n['largest_question'] / 1e3:.1f} | "
            f"{n['whole_ms']:.0f} | {n['ratio']:.1f} |"
            for n in lines
        ),
        "",
        foot(lines[-1]),
        "Predictions with names of classes, which no message holds; the rule that comes out has them:",
        "",
        "| | rounds | largest answer, kB | largest question, kB |",
        "|---|---:|---:|---:|",
        *(
            f"| {n['setting']} | {n['fit_rounds']} | {n['largest_answer'] / 1e3:.1f} | {n['largest_question'] / 1e3:.1f} |"
            for n in newest("merging-named")
        ),
        "",
        "Evaluations of the same, in ranges of whole blocks; every total is equal to the last bit. What is sent is a few "
        "numbers for each class, the pairs of classes that are confused, and a few numbers for each row, which `bounded=True` "
        "leaves out (with several labels a row it adds the histograms of mAP).",
        "",
        "| | ranges | largest answer, kB | bounded, kB |",
        "|---|---:|---:|---:|",
        *(
            f"| {n['setting']} | {n['ranges']} | {n['largest_answer'] / 1e3:.0f} | {n['largest_bounded'] / 1e3:.0f} |"
            for n in newest("merging-evaluations")
        ),
    ]
    return "\n".join([*rows, "", foot(newest("merging-evaluations")[-1])])


def _decoding() -> str:
    lines = newest("decoding")
    if not lines:
        return ""
    rows = [
        "## Reading 10,000 pictures",
        "",
        "JPEG files of 256 px, read at 64 px, by threads; each in a process of its own.",
        "",
    ]
    rows += ["| from | pictures a second | range | peak memory, MB |", "|---|---:|---:|---:|"]
    rows += [
        f"| {n['setting']} | {n['rate']:,.0f} | {n['low']:,.0f}–{n['high']:,.0f} | {n['peak_memory_mb']:.0f} |" for n in lines
    ]
    return "\n".join([*rows, "", foot(lines[-1])])


def _vote_accuracy() -> str:
    lines = newest("vote-accuracy")
    if not lines:
        return ""
    rules = list(lines[0]["rules"])
    first = lines[0]
    intro = (
        f"Share of {first['items']:,} items whose label is the true one, mean and standard deviation over {first['seeds']} "
        f"seeds, {first['users']:,} simulated annotators. Engagement says how far those who vote more are also better. The "
        "simulation keeps the assumptions of Dawid–Skene, so this is no ranking for real votes."
    )
    rows = ["## Labels from votes: accuracy", "", intro, "", "| | " + " | ".join(rules) + " |", "|---|" + "---:|" * len(rules)]
    for line in lines:
        cells = [f"{100 * line['rules'][rule]['accuracy']:.1f} ± {100 * line['rules'][rule]['spread']:.1f}" for rule in rules]
        rows.append(f"| {line['setting']} | " + " | ".join(cells) + " |")
    return "\n".join([*rows, "", foot(lines[-1])])


def _big_file() -> str:
    lines = newest("big-file")
    if not lines:
        return ""
    rows = ["## A large file", "", "| | seconds | peak memory, MB |", "|---|---:|---:|"]
    rows += [f"| {n['setting']} | {n['seconds']:.1f} | {n['peak_memory_mb']:.0f} |" for n in lines]
    return "\n".join([*rows, "", foot(lines[-1])])


def _imports() -> str:
    lines = newest("import-time")
    if not lines:
        return ""
    rows = ["## Import time", "", "| | seconds |", "|---|---:|"]
    rows += [f"| {n['setting']} | {n['seconds']:.3f} |" for n in lines]
    return "\n".join([*rows, "", foot(lines[-1])])


def _serving() -> str:
    lines = newest("serving")
    if not lines:
        return ""
    intro = (
        "The [identification page](serve.md) under load. Every answer has the most similar references of each suggested class. "
        "Clients keep their connections, send a small JPEG each time and run on the same machine. "
        f"The page is {lines[-1]['page_bytes'] / 1e3:.0f} kB before pictures."
    )
    tables = [part for line in lines for part in (_load_of(line), "", foot(line), "")]
    note = "Rows of 50 clients are half a minute each. Answers are remembered, to be voted on, in up to 128 MB."
    return "\n".join(["## Serving", "", intro, "", *tables, note])


def _load_of(line: dict[str, Any]) -> str:
    """The loads of one server, as a table."""
    columns = ["clients", "answers a second", "median, ms", "95 % within, ms", "processor, ms each", "errors", "memory, MB"]
    rows = [f"{line['setting']}. {line['other_load_words']}", "", f"| {' | '.join(columns)} |", "|" + "---:|" * len(columns)]
    rows += [
        f"| {n['clients']} | {n['per_second']:.0f} | {n['median_ms']:.1f} | {n['p95_ms']:.1f} | {n['cpu_ms']:.1f} "
        f"| {n['errors']} of {n['requests']:,} | {n['memory_mb']:.0f} |"
        for n in line["load"]
    ]
    return "\n".join(rows)
