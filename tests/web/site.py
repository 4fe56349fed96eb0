"""A small site to test with: colours that tell the class, a classifier trained on them, references, suspects, an index."""

import io
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from PIL import Image

from shortlist.data import PictureArray, Split
from shortlist.links import Softmax
from shortlist.models import Classifier, InputSpec, Network
from shortlist.web.reference_pictures import ReferencePictures
from shortlist.web.references import References
from shortlist.web.review import row_name, suspects
from shortlist.web.safety import Access
from shortlist.web.service import Identifier
from shortlist.web.site import Site
from shortlist.web.votes import VoteStore

NAMES = ["Acer <b>rubrum</b>", "Acer nigrum", "Betula alba", "Carex 'x' & \"y\""]
GENERA = ["Acer", "Acer", "Betula", "Carex"]
COLOURS = torch.tensor([[220, 40, 40], [40, 30, 30], [230, 230, 220], [40, 180, 60]])
SIZE = 16
BASE = "http://localhost:8000"


def squares(n=48, seed=0):
    """Squares whose colour tells the class, with noise; uint8 (n, 3, SIZE, SIZE), and their labels."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(n) % len(NAMES)
    noise = torch.randint(-25, 25, (n, 3, SIZE, SIZE), generator=generator)
    return (COLOURS[target][:, :, None, None] + noise).clamp(0, 255).to(torch.uint8), target


class Colours(torch.nn.Module):
    """The mean colour, as features."""

    def forward(self, prepared):
        return prepared.mean((2, 3))


def classifier(rule="lac:0.2", superclasses=GENERA):
    """Scores by the distance from the colour of each class; the rule is fitted on squares."""
    network = Network(Colours(), torch.nn.Linear(3, len(NAMES)), InputSpec.pictures(SIZE), len(NAMES))
    colours = COLOURS / 255
    with torch.no_grad():
        network.head.weight.copy_(8 * colours)
        network.head.bias.copy_(-4 * (colours**2).sum(1))
    made = Classifier(network, NAMES, link=Softmax(), superclasses=superclasses)
    images, target = squares(200, seed=1)
    generator = torch.Generator().manual_seed(2)
    target = torch.where(torch.rand(200, generator=generator) < 0.1, torch.randint(0, 4, (200,), generator=generator), target)
    return made.fit_rule(rule, made.predictions(images, target))


def rows(n=48, seed=0, wrong=()):
    """Squares as a split; the labels of some are wrong."""
    images, target = squares(n, seed)
    target = target.clone()
    for row in wrong:
        target[row] = (target[row] + 2) % len(NAMES)
    ids = [f"square {row}" for row in range(n)]
    return Split(PictureArray(images, ids), target, ids, classes=NAMES, columns={"author": ["A. <i>Painter</i>"] * n})


def jpeg(colour=(220, 40, 40), size=(40, 30), **options):
    """The bytes of a photograph of one colour."""
    written = io.BytesIO()
    Image.new("RGB", size, colour).save(written, options.pop("format", "JPEG"), **options)
    return written.getvalue()


@contextmanager
def made(folder, *, key=None, index=None, hosts=None, rule="lac:0.2", references=True, suspected=True, **options):
    """A site; closed at the end."""
    model, trained, held = classifier(rule), rows(), rows(24, seed=5, wrong=(3, 8))
    compared = References.build(model, trained, folder / "references")[0] if references else None
    access = Access(key=key) if hosts is None else Access(frozenset(hosts), key)
    site = Site(
        Identifier(model, compared),
        VoteStore(folder / "votes.sqlite"),
        "squares",
        access=access,
        pictures=None if compared is None else ReferencePictures(trained, compared),
        suspected=suspects(model.predictions(held), model.rule, "test", partial(row_name, held)) if suspected else (),
        held_out={"test": held},
        index=index,
        **options,
    )
    try:
        yield site
    finally:
        site.close()


def similar_colour(content):
    """The mean colour of a JPEG."""
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).reshape(-1, 3).mean(0)
