"""The table of docs/papers.md: every table and figure of the five papers with the command that computes it.

``python -m docs.papers_table`` writes it into the page. Tests check that the page is the one written here, and run every
command on small made-up data: ``tests/test_papers.py`` the trainings, ``tests/test_papers_run.py`` the others.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shortlist.recipes import published_numbers
from shortlist.recipes.published import PAPERS, REPRINTS

PAGE = Path(__file__).parent / "papers.md"
BEGIN, END = "<!-- tables: written by `python -m docs.papers_table` -->\n", "<!-- end of tables -->\n"
TITLES = {
    "garcin-2022": "Garcin, Servajean, Joly, Salmon, Stochastic smoothing of the top-K calibrated hinge loss, 2022",
    "garcin-2023": "Garcin, Servajean, Joly, Salmon, A two-head loss function for deep average-K classification, 2023",
    "garcin-thesis": "Garcin, Set-valued classification with applications to citizen science, thesis",
    "liao": "Liao, Gavves, Oh, Snoek, Quasibinary classifier for images with zero and multiple labels",
    "cheng": "Cheng, Vasconcelos, Towards calibrated multi-label deep neural networks",
}
# Whether data are free to get, and how, by what their publishers say.
DATA = {
    "CIFAR": ("free", "`shortlist data download cifar100 PATH`, or `cifar10`"),
    "Tiny ImageNet": ("free", "by download"),
    "ImageNet": ("on registration", "for non-commercial research; ImageNet-LT is a list of its pictures"),
    "Pl@ntNet-300K": ("free", "[doi:10.5281/zenodo.5645731](https://doi.org/10.5281/zenodo.5645731)"),
    "COCO": ("free", "by download"),
    "VOC": ("free", "by download"),
    "NUS-WIDE": ("on request", "labels by download, pictures by a signed form"),
    "WIDER Attribute": ("free", "by download, for research"),
    "VISPR": ("free", "by download, for research"),
    "expert": ("not published", "the answers of the botanist"),
    "none": ("none needed", ""),
}


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper.

    Args:
        paper: a key of :data:`TITLES`.
        number: ``"Table 4"``, ``"Figure 1"``.
        shows: what it shows.
        commands: what computes it; empty for drawings and definitions.
        data: the keys of :data:`DATA` that it needs.
        recipes: further recipes to give to the same commands.
        methods: further methods to give to the first command.
        note: how else to vary the command, or where to look.
        missing: what the library cannot do yet.
    """

    paper: str
    number: str
    shows: str
    commands: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    note: str = ""
    missing: str = ""

    @property
    def varied(self) -> tuple[str, ...]:
        """The commands with the further recipes, and the first one with the further methods."""
        named = [(command, re.search(r"recipes? (\S+)", command)) for command in self.commands]
        recipes = [
            command.replace(found[1], recipe) for recipe in self.recipes for command, found in named if found is not None
        ]
        return (*recipes, *(f"{self.commands[0]} --method {method}" for method in self.methods))


def _items() -> Iterator[Item]:
    yield from _garcin_2022()
    yield from _garcin_2023()
    yield from _thesis()
    yield from _liao()
    yield from _cheng()


def _train(recipe: str, more: str = "", command: str = "train") -> str:
    return f"shortlist {command} PATH --recipe {recipe} {more}".strip()


LEVELS = ("python -m benchmarks loss_levels",)
RIVALS = "`shortlist recipes NAME` lists the rivals with their settings"


def _garcin_2022() -> Iterator[Item]:
    paper, cifar, plantnet = "garcin-2022", ("CIFAR",), ("Pl@ntNet-300K",)
    yield Item(paper, "Table 1", "formulas of the losses", note="[losses and methods](losses.md)")
    grid = "--grid epsilon=0,0.0001,0.001,0.01,0.1,1,10,100"
    yield Item(paper, "Table 2", "top-5 by ε, validation rows", (_train("cifar100-top5", grid, "tune"),), cifar)
    yield Item(
        paper,
        "Table 3",
        "top-5 by B, validation rows",
        (_train("cifar100-top5", "--grid samples=1,2,3,5,10,50,100 --out runs/tune-samples", "tune"),),
        cifar,
    )
    noise = (_train("cifar100-top5", "--set label_noise=0.3"), _train("cifar100-top5", "--method smooth-topk"))
    varied, both = "label_noise 0, 0.1, 0.2, 0.3, 0.4", ("cross-entropy", "smooth-topk")
    yield Item(paper, "Table 4", "top-5 by label noise", noise, cifar, methods=both, note=varied)
    macro = (_train("plantnet-top5"),)
    yield Item(paper, "Table 5", "macro top-k", macro, plantnet, ("plantnet-top1", "plantnet-top3"), note=RIVALS)
    tail = ("imagenet-lt-top1", "imagenet-lt-top3")
    yield Item(paper, "Table 6", "top-k, long tail", (_train("imagenet-lt-top5"),), ("ImageNet",), tail)
    found = "the report of the run has it"
    yield Item(paper, "Table 7", "top-1 of the models of Table 4", noise[:1], cifar, methods=both, note=found)
    others = ("plantnet-top1", "plantnet-top3", "plantnet-top5")
    yield Item(paper, "Table 8", "top-k of the models of Table 5", (_train("plantnet-top10"),), plantnet, others)
    smooth = "--method smooth-topk --set temperature=0.1 --set lr=1 --set weight_decay=0.000025"
    yield Item(
        paper,
        "Table 9",
        "top-k",
        (_train("imagenet-top5"), _train("imagenet-top1", smooth)),
        ("ImageNet",),
        note="tested on the official validation set",
    )
    yield Item(paper, "Figure 1", "level sets of the losses, k = 2", LEVELS, ("none",), note="[drawn here](gallery.md)")
    sparsity = ("python -m benchmarks.gradient_sparsity PATH",)
    measured = "[measured](benchmarks.md)"
    yield Item(paper, "Figure 2", "non-zero coordinates of the gradient by ε", sparsity, cifar, note=measured)
    times = ("python -m benchmarks epoch_time",)
    yield Item(paper, "Figure 3", "epoch time by k", times, ("none",), note=f"{measured} on a GPU; slow without one")
    yield Item(paper, "Figure 4", "level sets by B", LEVELS, ("none",))
    yield Item(paper, "Figure 5", "level sets by ε", LEVELS, ("none",))
    yield Item(paper, "Figure 6", "level sets of the losses, k = 1", LEVELS, ("none",))


def _garcin_2023() -> Iterator[Item]:
    paper, plantnet = "garcin-2023", ("Pl@ntNet-300K",)
    rivals = ("cross-entropy", "role", "assume-negative", "expected-positive", "noised-topk")
    yield Item(paper, "Table 1", "average-5", (_train("cifar100-average5"),), ("CIFAR",), methods=rivals)
    yield Item(
        paper,
        "Table 2",
        "average-k, overall and by shot group",
        (_train("plantnet-average5"), _train("plantnet-average5", "--method expected-positive --set beta=0.001")),
        plantnet,
        ("plantnet-average2", "plantnet-average3", "plantnet-average10"),
        note=RIVALS,
    )
    yield Item(paper, "Figure 1", "pictures of clear and of ambiguous species")
    yield Item(paper, "Figure 2", "drawing: how labels come about")
    yield Item(paper, "Figure 3", "drawing: the two heads")
    sizes = (
        "shortlist report runs/plantnet-average5 runs/plantnet-average5-cross-entropy --rule average-k:5 --out sizes.html",
    )
    yield Item(paper, "Figure 4", "set sizes, by loss and by shot group", sizes, plantnet)


def _thesis() -> Iterator[Item]:
    paper, plantnet = "garcin-thesis", ("Pl@ntNet-300K",)
    compared = "shortlist report runs/tune-plantnet-cross-entropy/trial-* --rule top-k:1 --out models.html"
    every = _train("plantnet-cross-entropy", command="tune")
    rules = ("shortlist evaluate runs/plantnet-average5 --rule top-k:5 --rule average-k:5 --rule mass:0.1 --rule lac:0.1",)
    yield Item(paper, "Table 2.1", "the four constraints on sets", rules, plantnet, note="[which rule](rules.md)")
    by_size = (
        _train("plantnet-cross-entropy"),
        "shortlist evaluate runs/plantnet-cross-entropy --rule top-k:1 --shots 10,50,500,2000",
    )
    yield Item(
        paper, "Table 3.1", "top-1 by number of training pictures", by_size, plantnet, note="ResNet-50; column macro top-1"
    )
    yield Item(paper, "Table 3.2", "properties of datasets", note="no numbers")
    yield Item(paper, "Table 3.3", "settings of the networks", ("shortlist recipes plantnet-cross-entropy",), ("none",), ALIKE)
    yield Item(paper, "Table 4.1", "as Garcin 2022, Table 1", note="see there")
    for table, (there, number) in REPRINTS.items():
        yield Item(paper, f"Table {table}", f"as {PAPERS[there]}, Table {number}", note="see there")
    settings = ("shortlist recipes cifar100-average5", "shortlist recipes plantnet-average5")
    yield Item(paper, "Table 5.3", "parameters chosen on CIFAR-100", settings[:1], ("none",))
    yield Item(paper, "Table 5.4", "parameters chosen on Pl@ntNet-300K", settings[1:], ("none",))
    yield Item(paper, "Figures 1.1, 1.2, 1.6, 2.1", "drawings and screens of Pl@ntNet")
    yield Item(paper, "Figures 1.3, 1.4, 1.5", "pictures of clear and of similar classes")
    yield Item(paper, "Figure 2.2", "drawing: surrogates of the 0/1 loss")
    genera = "--only Fedia --only Pereskia --only Nyctaginia --out genera.png"
    tree = (f"shortlist data sheet plantnet-300k:PATH {genera}",)
    yield Item(paper, "Figure 3.1", "three genera and their species", tree, plantnet)
    lorenz = ("shortlist report runs/plantnet-average5 --out tail.html",)
    yield Item(paper, "Figure 3.2", "Lorenz curve of the species", lorenz, plantnet, note="the whole database is not published")
    sheet = ("shortlist data sheet plantnet-300k:PATH --only Fedia",)
    yield Item(paper, "Figures 3.3, 3.4", "pictures of one species, and of similar ones", sheet, plantnet)
    yield Item(paper, "Figure 3.5", "top-1 and macro top-1 of many networks", (every, compared), plantnet, ALIKE)
    beside = ("Pl@ntNet-300K", "ImageNet")
    average = "macro average-5 of many networks, ImageNet beside Pl@ntNet-300K"
    yield Item(paper, "Figure 3.6", average, (every,), beside, ALIKE, note=MATCHED)
    yield Item(
        paper,
        "Figure 3.7",
        "error of a botanist and of networks at 4.1 labels on average",
        (
            "shortlist predict runs/plantnet-cross-entropy plantnet-300k:PATH,mini_test=5,mini_genera=Crotalaria+Lupinus "
            "--out mini.safetensors",
            "shortlist report mini.safetensors --rule average-k:4.1 --same-rows --human sets.csv --out people.html",
        ),
        ("Pl@ntNet-300K", "expert"),
    )
    both = "macro top-1, ImageNet beside Pl@ntNet-300K; macro top-5 beside macro average-5"
    yield Item(paper, "Figure 3.8", both, (every,), beside, ALIKE, note=MATCHED)
    smooth = _train("plantnet-cross-entropy", "--method smooth-topk --out runs/tune-plantnet-cross-entropy-smooth-topk", "tune")
    yield Item(paper, "Figure 3.9", "top-5 of two losses by network", (every, smooth), plantnet, ALIKE, note=MATCHED)
    for number in range(1, 7):
        yield Item(paper, f"Figure 4.{number}", f"as Garcin 2022, Figure {number}", note="see there")
    for number in range(1, 5):
        yield Item(paper, f"Figure 5.{number}", f"as Garcin 2023, Figure {number}", note="see there")
    alphas = "--grid alpha=0.00001,0.0001,0.001,0.01,0.1,1,10,100"
    yield Item(
        paper, "Figure 5.5", "average-5 by α, validation rows", (_train("cifar100-average5", alphas, "tune"),), ("CIFAR",)
    )
    batches = (_train("cifar100-average5", "--set batch_size=256 --set lr=0.4"),)
    yield Item(
        paper,
        "Figure 5.6",
        "average-5 by batch size",
        batches,
        ("CIFAR",),
        methods=("cross-entropy",),
        note="lr / batch_size constant",
    )


ALIKE = tuple(f"plantnet-cross-entropy-{family}" for family in ("small", "efficientnet", "transformer"))
MATCHED = "drawn by the [code below](#two-lists-of-models)"


def _liao() -> Iterator[Item]:
    paper = "liao"
    softmax = "--method cross-entropy --set labels=as-given"
    yield Item(
        paper,
        "Table I",
        "top-1 error, one label per picture",
        (
            _train("cifar100-quasibinary"),
            _train("cifar100-quasibinary", "--method bce"),
            _train("cifar100-quasibinary", softmax),
        ),
        ("CIFAR", "Tiny ImageNet", "ImageNet"),
        ("cifar10-quasibinary", "tiny-imagenet-quasibinary", "imagenet-quasibinary"),
    )
    others = tuple(_train("cifar100-quasibinary", f"--set backbone={name}") for name in ("vgg-16", "densenet-40-12"))
    yield Item(
        paper,
        "Table I (supplement)",
        "the same, other networks",
        others,
        ("CIFAR", "Tiny ImageNet"),
    )
    rivals = ("bce", "softmax-uniform", "softmax-confidence")
    yield Item(paper, "Table II", "one label or none", (_train("cifar60-40"),), ("CIFAR",), methods=rivals)
    yield Item(
        paper,
        "Table III",
        "F1 and ECE of the top 4",
        (_train("coco-quasibinary"), _train("nus-wide-quasibinary", "--method softmax --set calibration=temperature")),
        ("COCO", "NUS-WIDE"),
        methods=("bce", "softmax"),
        note="the report of the run has both numbers",
    )
    yield Item(paper, "Figure 1", "drawing: three kinds of classifiers")
    yield Item(
        paper,
        "Figure 2",
        "the normaliser over training",
        (_train("cifar100-quasibinary"),),
        ("CIFAR",),
        note="its curve is in the report of the run",
    )
    options = "--calibration-bins 10 --top-n 4 --out reliability.html"
    bars = (f"shortlist report runs/coco-quasibinary runs/coco-quasibinary-bce {options}",)
    yield Item(paper, "Figure 3", "reliability of the top 4", bars, ("COCO",))
    four = ("shortlist predict runs/coco-quasibinary pictures",)
    yield Item(paper, "Figure 4", "four labels with their probabilities", four, ("COCO", "NUS-WIDE"))


def _cheng() -> Iterator[Item]:
    paper, all_four = "cheng", ("COCO", "VOC", "WIDER Attribute", "VISPR")
    yield Item(paper, "Table 1", "properties of the losses", note="[losses and methods](losses.md)")
    stats = tuple(
        f"shortlist data info {data}"
        for data in (
            "coco:PATH,year=2014,test=val,unannotated=drop",
            "voc:PATH,year=2012,test=val",
            "wider-attribute:PATH,trainval=true",
            "vispr:PATH,trainval=true",
        )
    )
    yield Item(
        paper,
        "Table 2",
        "sizes of the datasets",
        stats,
        all_four,
    )
    yield Item(
        paper,
        "Table 3",
        "mAP and calibration error",
        (
            _train("coco-spa"),
            _train("coco-spa-label-pair", "--set backbone=timm:vit_base_patch32_224"),
            _train("voc-spa", "--method asy --set probabilities=sigmoid"),
            _train("wider-attribute-spa-label-pair"),
        ),
        all_four,
        note=RIVALS,
    )
    yield Item(
        paper,
        "Table 4",
        "label pairs with other losses",
        (
            _train("coco-spa", "--method bce-label-pair"),
            _train("coco-spa", "--method focal-label-pair --set probabilities=sigmoid"),
            _train("coco-spa", "--method asymmetric-label-pair --set probabilities=sigmoid"),
        ),
        ("COCO",),
    )
    curve = ("shortlist report runs/coco-spa runs/coco-spa-asy --out reliability.html",)
    find = ("shortlist index build runs/coco-spa coco.index", "shortlist search 'fork and apple and not knife' coco.index")
    yield Item(paper, "Figure 1", "reliability, and an example of retrieval", (*curve, *find), ("COCO",))
    drawn = "from shortlist import losses, report; report.PartialLosses(losses.SpaLoss()).save('spa.svg')"
    spa = (f'python -c "{drawn}"',)
    yield Item(paper, "Figure 2", "SPA: partial losses and link", spa, ("none",), note="[drawn here](gallery.md)")
    lengths = ("shortlist retrieval-eval runs/coco-spa-bce runs/coco-spa-asy runs/coco-spa --plot lengths.svg",)
    yield Item(paper, "Figure 3", "retrieval mAP by length of the query", lengths, all_four)
    yield Item(paper, "Figure 4", "examples of retrieval", find, ("COCO",))


ITEMS = tuple(_items())


def text() -> str:
    """The tables, one for each paper, and that of the data."""
    parts = []
    for paper, title in TITLES.items():
        rows = [_row(item) for item in ITEMS if item.paper == paper]
        parts.append(f"## {PAPERS[paper]}\n\n{title}.\n\n" + _table(["", "shows", "command", "data", "remarks"], rows))
    data = [[name, *free] for name, free in DATA.items() if name != "none"]
    parts.append("## The data\n\n" + _table(["data", "free to get?", "how"], data))
    # Commands are longer than names, so that the lines of these tables are wrapped: see style.css.
    return '<div class="commands" markdown>\n\n' + "\n".join(parts) + "\n</div>\n"


def _row(item: Item) -> list[str]:
    commands = "<br>".join(f"`{command}`" for command in item.commands)
    count = _count(item)
    remarks = [
        f"{count} published numbers" if count else "",
        f"also {_quoted(item.recipes)}" if item.recipes else "",
        f"also with `--method` {_quoted(item.methods)}" if item.methods else "",
        item.note,
        f"**not yet**: {item.missing}" if item.missing else "",
    ]
    data = ", ".join(DATA[name][0] if name == "none" else f"{name} ({DATA[name][0]})" for name in item.data)
    return [item.number, item.shows, commands or "–", data or "–", "; ".join(filter(None, remarks))]


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _count(item: Item) -> int:
    """How many published numbers of it are kept."""
    table = item.number.removeprefix("Table ")
    return sum(number.table == table for number in published_numbers(paper=item.paper))


def _table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def placed(page: str) -> str:
    """The page with the tables between their marks."""
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:start] + "\n" + text() + "\n" + page[end:]


def write() -> None:
    """Write the tables into the page."""
    PAGE.write_text(placed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
