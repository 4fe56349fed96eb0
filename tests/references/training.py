"""Training, literally: one step, one row, one window at a time, in float64."""

import math

import numpy as np

from tests.references.sets import labels_of


def learning_rate(step, *, lr, schedule, epochs, steps, warmup=None, milestones=(), decay=0.1):
    """The rate at a step counted from 0, with ``steps`` steps an epoch."""
    total = epochs * steps
    rising = warmup * steps if warmup is not None else total / 4 if schedule == "one-cycle" else 0
    rising = min(round(rising), total - 1)
    if step < rising:
        return lr * (step + 1) / (rising + 1)
    if schedule == "constant":
        return lr
    if schedule == "step":
        for milestone in milestones:
            if step >= milestone * steps:
                lr *= decay
        return lr
    return lr * (1 + math.cos(math.pi * (step - rising) / (total - rising))) / 2


def averages(values, decay):
    """The average after each step, started at the first value, which is that before the first step."""
    average, found = values[0], []
    for step, value in enumerate(values[1:]):
        kept = min(decay, (1 + step) / (10 + step))
        average = kept * average + (1 - kept) * value
        found.append(average)
    return found


def mirrored_border(picture, margin):
    """The reflection of (C, H, W) on all four sides, its edge not repeated; a side of one pixel is repeated."""
    channels, tall, broad = picture.shape

    def inside(place, extent):
        if extent == 1:
            return 0
        while not 0 <= place < extent:
            place = -place if place < 0 else 2 * (extent - 1) - place
        return place

    out = np.empty((channels, tall + 2 * margin, broad + 2 * margin), picture.dtype)
    for row in range(out.shape[1]):
        for column in range(out.shape[2]):
            out[:, row, column] = picture[:, inside(row - margin, tall), inside(column - margin, broad)]
    return out


def holes(size, side):
    """Every square of this side around a pixel of a picture, as bool (size, size)."""
    found = []
    for row in range(size):
        for column in range(size):
            hole = np.zeros((size, size), bool)
            top, left = row - side // 2, column - side // 2
            hole[max(0, top) : top + side, max(0, left) : left + side] = True
            found.append(hole)
    return found


def padded(picture, margin):
    """Zeros on all four sides of (C, H, W)."""
    channels, tall, broad = picture.shape
    out = np.zeros((channels, tall + 2 * margin, broad + 2 * margin), picture.dtype)
    out[:, margin : margin + tall, margin : margin + broad] = picture
    return out


def places(picture, wanted):
    """(top, left, flipped) of every window of (C, H, W) that is the wanted picture."""
    _, tall, broad = wanted.shape
    found = []
    for top in range(picture.shape[1] - tall + 1):
        for left in range(picture.shape[2] - broad + 1):
            window = picture[:, top : top + tall, left : left + broad]
            found += [(top, left, flipped) for flipped in (False, True) if (window[:, :, :: 1 - 2 * flipped] == wanted).all()]
    return found


def log_loss(probs, target):
    """Mean of -log p of the label of each row; with many labels, of each label and non-label."""
    costs = []
    for i, row in enumerate(probs):
        if target.ndim == 1:
            costs.append(-math.log(row[target[i]]))
        else:
            costs += [-math.log(p if j in labels_of(target, i) else 1 - p) for j, p in enumerate(row)]
    return sum(costs) / len(costs)


def largest_batch(rows, memory, available):
    """The most rows below the whole batch whose memory fits, by trying each; at least 1."""
    return max([1] + [number for number in range(1, rows) if memory(number) <= available])


def coarse_windows(side, least, narrow, wide):
    """Every box of whole pixels of a square picture whose area and shape random crops may have, after rounding."""
    for height in range(1, side + 1):
        for width in range(1, side + 1):
            # A rounded side stands for all lengths up to half a pixel away.
            largest = (height + 0.5) * (width + 0.5) >= least * side * side
            shaped = (width + 0.5) / (height - 0.5) >= narrow and (width - 0.5) / (height + 0.5) <= wide
            if largest and shaped:
                for top in range(side - height + 1):
                    for left in range(side - width + 1):
                        yield top, left, height, width
