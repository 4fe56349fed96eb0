"""A classifier on embeddings of any model.

A large model, which is not trained here, turns every picture into a row of numbers; a small one is trained on the rows. That
takes seconds on a CPU, and a few dozen pictures per class are often enough. Here the large model is a stand-in with random
weights.
"""

import tempfile

import torch
from torch import nn

import shortlist as sl
from shortlist.data import Flora

torch.manual_seed(0)
large = nn.Sequential(nn.Conv2d(3, 64, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())  # yours: DINOv2, CLIP, …


@torch.inference_mode()
def embed(pictures):
    """uint8 (N, 3, H, W) to float (N, 1024): the same preparation for every picture, whenever it comes."""
    return torch.cat([large(block.float() / 255) for block in pictures.split(128)])


flora = Flora(species=8, genera=3, abundance="balanced")
pictures, labels, _ = flora.specimens(1200, seed=0, size=48)
names = [flora.classes[label] for label in labels]

with tempfile.TemporaryDirectory() as folder:
    run = sl.train((embed(pictures), names), method="cross-entropy", rule="lac:0.1", epochs=10, folder=f"{folder}/run")
    new, truth, _ = flora.specimens(4, seed=1, size=48)
    print(run.classifier.predict(embed(new)))
    print("true:", [flora.classes[label] for label in truth])
    print("coverage:", round(run.evaluate().coverage, 3), "of sets of", round(run.evaluate().size.mean, 2), "labels")
