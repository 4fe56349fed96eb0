"""A folder in which the commands of docs/papers.md run: tiny data in the published layouts, and small stand-in networks.

Commands run as they are printed, in one process, with fewer and smaller pictures, fewer epochs and smaller batches.
"""

import contextlib
import io
import re
import runpy
import shlex
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from PIL import Image
from torch import nn

from shortlist.cli import main
from shortlist.errors import InputError
from shortlist.methods import find_method
from shortlist.recipes import find_recipe
from tests.data.readers import fixtures

SIDE = 16
FEW = 3  # rows, one batch, for a network that is large on a CPU
FRUIT = ["apple", "cup", "fork", "knife", "person", "spoon"]
PLANTS = ["Fedia cornucopiae", "Fedia graciliflora", "Crotalaria juncea", "Crotalaria retusa"]
PLANTS += ["Lupinus albus", "Lupinus luteus", "Nyctaginia capitata"]
PLANTS += ["Pereskia aculeata", "Pereskia bleo", "Pereskia grandifolia"]
SPECIES = {str(number): name for number, name in enumerate(PLANTS, start=101)}
# The names as torchvision and timm spell them; neither package is needed by the tests.
TORCHVISION = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "wide_resnet50_2", "wide_resnet101_2"]
TORCHVISION += ["densenet121", "densenet161", "densenet169", "densenet201", "inception_v3", "shufflenet_v2_x1_0", "alexnet"]
TORCHVISION += ["mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "vgg11", "vgg16", "squeezenet1_0"]
TORCHVISION += [f"efficientnet_b{number}" for number in range(8)]
TIMM = ["ecaresnet50t", "inception_v4", "inception_resnet_v2", "vit_base_patch16_224", "vit_base_patch32_224"]


class StandIn(nn.Module):
    """A small network in place of a published one, with a classification layer for ImageNet or without one."""

    num_features = 6

    def __init__(self, classes=1000):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 6)
        )
        self.fc = nn.Linear(6, classes) if classes else nn.Identity()

    def forward(self, pictures):
        return self.fc(self.body(pictures))


def stand_in_packages():
    """Modules in place of torchvision and timm, by name."""
    torchvision, models, timm = ModuleType("torchvision"), ModuleType("torchvision.models"), ModuleType("timm")
    torchvision.models = models
    models.get_model = lambda name, *, weights=None: StandIn()
    models.list_models = lambda module=None: TORCHVISION
    timm.create_model = lambda name, *, pretrained, num_classes, in_chans: StandIn(num_classes)
    timm.list_models = lambda: TIMM
    return {"torchvision": torchvision, "torchvision.models": models, "timm": timm}


def noise(root):
    """Turn every picture below a folder into noise of another seed, so that no two have the same scores."""
    for seed, path in enumerate(sorted(Path(root).rglob("*.jp*g")) + sorted(Path(root).rglob("*.JPEG"))):
        pixels = np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, format="JPEG")


def cifar100(root, rows=40):
    """Ten classes in two superclasses."""
    pairs = [(label % 10 // 5, label % 10) for label in range(rows)]
    home = fixtures.cifar100(root, pairs, pairs)
    fixtures.text(home / "fine_label_names.txt", *(f"class {number}" for number in range(10)))
    fixtures.text(home / "coarse_label_names.txt", "first", "second")


def plantnet(root):
    """Ten species of five genera; the first has 14 training pictures, the others two."""
    metadata = {}
    for species in SPECIES:
        for split, number in (("train", 14 if species == "101" else 2), ("val", 2), ("test", 7)):
            for picture in range(number):
                name = f"{split}{species}{picture}"
                metadata[name] = {"species_id": species, "obs_id": name, "author": "Ada", "split": split}
    home = fixtures.plantnet(root, metadata=metadata)
    fixtures.dump(home / "plantnet300K_species_id_2_name.json", SPECIES)


def coco(root):
    """Pictures with any of six labels; one in ten has no annotation."""
    generator, year = np.random.default_rng(0), 2014
    categories = [{"supercategory": "things", "id": number, "name": name} for number, name in enumerate(FRUIT, start=1)]
    for split, rows in (("train", 40), ("val", 30)):
        images = [
            {"id": row, "file_name": f"COCO_{split}{year}_{row:012d}.jpg", "height": SIDE, "width": SIDE} for row in range(rows)
        ]
        present = generator.random((rows, len(FRUIT))) < 0.4
        present[:, 0] |= ~present.any(1)
        present[::10] = False
        annotations = [
            {"id": number, "image_id": int(row), "category_id": int(label) + 1, "iscrowd": 0, "bbox": [0, 0, 4, 4], "area": 16}
            for number, (row, label) in enumerate(np.argwhere(present), start=1)
        ]
        document = {"info": {}, "licenses": [], "images": images, "annotations": annotations, "categories": categories}
        fixtures.dump(root / f"annotations/instances_{split}{year}.json", document)
        fixtures.pictures(root, *(f"{split}{year}/{one['file_name']}" for one in images))


def imagenet(root):
    """A thousand classes, as the published networks have, with a picture each for training and testing."""
    synsets = [f"n{number:08d}" for number in range(1000)]
    (root / "train").mkdir(parents=True)
    for number, synset in enumerate(synsets, start=1):
        fixtures.pictures(root, f"train/{synset}/{synset}_1.JPEG", f"val/{synset}/ILSVRC2012_val_{number:08d}.JPEG")
    fixtures.text(root / "LOC_synset_mapping.txt", *(f"{synset} name of {synset}" for synset in synsets))


DATA = {
    "cifar100": cifar100,
    "cifar100-few": lambda root: cifar100(root, FEW),
    "plantnet-300k": plantnet,
    "coco": coco,
    "imagenet": imagenet,
    "voc": lambda root: fixtures.voc(root, 2012, ("train", "val")),
    "wider-attribute": fixtures.wider_attribute,
    "vispr": fixtures.vispr,
}


@dataclass(frozen=True)
class Outcome:
    """What a command left behind: its exit code and what it printed."""

    code: int
    out: str
    err: str


def outcome_of(call):
    """Run the call and collect what it prints."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            call()
        except SystemExit as exit:
            code = int(exit.code or 0) if not isinstance(exit.code, str) else 1
    return Outcome(code, out.getvalue(), err.getvalue())


class Workspace:
    """A folder with data and runs, in which each command runs once.

    Args:
        folder: an empty folder.
        monkeypatch: puts the stand-ins in place.
    """

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch, self.outcomes = folder, monkeypatch, {}
        for place in ("gallery", "pictures"):
            (folder / place).mkdir()
        fixtures.pictures(folder / "pictures", "a.jpg", "b.jpg", "c.jpg")
        noise(folder / "pictures")

    def data(self, source):
        """The path of the data of a source, written when first asked for."""
        path = self.folder / "data" / source
        if not path.exists():
            path.mkdir(parents=True)
            DATA[source](path)
            noise(path)
        return str(path)

    def outcome(self, command):
        """What the command leaves behind; runs and data that it needs are made first."""
        if command not in self.outcomes:
            program, *arguments = shlex.split(command)
            self.outcomes[command] = {"shortlist": self._shortlist, "python": self._python}[program](arguments)
        return self.outcomes[command]

    def train(self, name):
        """Make the run of this name: that of a recipe, or of a recipe and a method."""
        if (self.folder / "runs" / name).exists():
            return
        recipe, method = recipe_and_method(name)
        given = ["--method", method, "--out", f"runs/{name}"] if method else []
        found = self.program(
            "train", self.data(source_of(recipe)), "--recipe", recipe, *given, "--no-tensorboard", *small(recipe)
        )
        assert found.code == 0, found.err

    def program(self, *arguments):
        """The program with these arguments, in the folder."""
        with self._in_place(["shortlist", *arguments]):
            return outcome_of(main)

    def execute(self, code):
        """Python code, in the folder."""
        with self._in_place(["-c"]):
            return outcome_of(lambda: exec(code, {}))

    @contextlib.contextmanager
    def _in_place(self, arguments):
        """In the folder, with these arguments of the process and the stand-ins."""
        with self.monkeypatch.context() as patch, contextlib.chdir(self.folder):
            patch.setattr(sys, "argv", arguments)
            for name, module in stand_in_packages().items():
                patch.setitem(sys.modules, name, module)
            yield

    def _shortlist(self, arguments):
        for before, argument in pairwise(arguments):
            if argument.startswith("runs/") and "/trial-" not in argument and before != "--out":
                self.train(argument.removeprefix("runs/"))
        ready = [part for argument in arguments for part in self._filled(argument)]
        if arguments[0] == "tune":
            recipe = arguments[arguments.index("--recipe") + 1]
            ready = [self.data(source_of(recipe)) if part == "PATH" else part for part in ready] + small(recipe)
        return self.program(*ready)

    def _filled(self, argument):
        """An argument with the path of its data, and patterns of files as the shell expands them."""
        if "*" in argument:
            return sorted(str(path.relative_to(self.folder)) for path in self.folder.glob(argument))
        return [re.sub(r"^([\w-]+):PATH", lambda found: f"{found[1]}:{self.data(found[1])}", argument)]

    def _python(self, arguments):
        kind, what, *rest = arguments
        if kind == "-c":
            return self.execute(what)
        ready = [given for part in rest for given in ([self.data("cifar100-few"), str(FEW)] if part == "PATH" else [part])]
        with self.monkeypatch.context() as patch, contextlib.chdir(self.folder):
            patch.setattr(sys, "argv", [what, *ready])
            if "." in what:
                patch.delitem(sys.modules, what, raising=False)  # as in a fresh process
            return outcome_of(lambda: runpy.run_module(what, run_name="__main__"))


def source_of(recipe):
    """The kind of data that a recipe reads."""
    return find_recipe(recipe).data.partition(":")[0]


def small(recipe):
    """Options that make the training of a recipe small; networks of CIFAR are replaced, others have a stand-in."""
    chosen = find_recipe(recipe)
    settings = {"epochs": 2, "batch_size": 16, "precision": "float32"}
    if chosen.schedule == "step":
        settings["milestones"] = 1
    settings |= {"backbone": "plain-8"} if source_of(recipe) == "cifar100" else {"size": SIDE}
    return ["--device", "cpu", *(part for name, value in settings.items() for part in ("--set", f"{name}={value}"))]


def recipe_and_method(name):
    """What ``runs/NAME`` is the run of: a recipe, or a recipe and a method joined by a hyphen."""
    parts = name.split("-")
    for length in range(len(parts), 0, -1):
        recipe, method = "-".join(parts[:length]), "-".join(parts[length:])
        try:
            find_recipe(recipe)
            if method:
                find_method(method)
        except InputError:
            continue
        return recipe, method or None
    raise AssertionError(f"runs/{name}: no recipe, nor recipe and method, has this name")


def people(predictions):
    """Lines of a table of the sets that two people gave: Ann the right label and the first, Bo nothing."""
    lines = ["person,id,labels"]
    target = torch.as_tensor(predictions.target)
    for row, label in zip(predictions.ids, target.tolist(), strict=True):
        names = dict.fromkeys([predictions.class_names[label], predictions.class_names[0]])
        lines += [f"Ann,{row},{'|'.join(names)}", f"Bo,{row},"]
    return "\n".join(lines) + "\n"
