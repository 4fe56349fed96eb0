"""Transforms of one picture (C, H, W), pixel by pixel, in float64; and its print, in fractions."""

import math
from fractions import Fraction

import numpy as np


def crop(picture, top, left, height, width, padding=0):
    channels, tall, broad = picture.shape
    out = np.zeros((channels, height, width))
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                row, column = top + y - padding, left + x - padding
                if 0 <= row < tall and 0 <= column < broad:
                    out[c, y, x] = picture[c, row, column]
    return out


def line(values, size):
    """One row or column in another size: a triangle as wide as two steps, of at least one pixel each."""
    stride, out = len(values) / size, []
    for i in range(size):
        weights = [max(0.0, 1 - abs(j + 0.5 - stride * (i + 0.5)) / max(1.0, stride)) for j in range(len(values))]
        out.append(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
    return out


def resized_crop(picture, box, size):
    top, left, height, width = box
    part = np.asarray(picture, np.float64)[:, top : top + height, left : left + width]
    wide = np.array([[line(row, size[1]) for row in channel] for channel in part])
    return np.array([[line(column, size[0]) for column in channel.T] for channel in wide]).transpose(0, 2, 1)


def box(tall, broad, scale, ratio, areas, aspects, down, across):
    """The box that these uniform numbers make: the first of the tries that fits, else the central one."""
    for area, aspect in zip(areas, aspects, strict=True):
        pixels = (scale[0] + (scale[1] - scale[0]) * area) * tall * broad
        over = math.exp(math.log(ratio[0]) + (math.log(ratio[1]) - math.log(ratio[0])) * aspect)
        height, width = round(math.sqrt(pixels / over)), round(math.sqrt(pixels * over))
        if 1 <= height <= tall and 1 <= width <= broad:
            return math.floor(down * (tall - height + 1)), math.floor(across * (broad - width + 1)), height, width
    height, width = tall, broad
    if broad / tall < ratio[0]:
        height = max(1, round(broad / ratio[0]))
    elif broad / tall > ratio[1]:
        width = max(1, round(tall * ratio[1]))
    return (tall - height) // 2, (broad - width) // 2, height, width


def normalize(picture, mean, std):
    scale = 255 if picture.dtype == np.uint8 else 1
    out = np.zeros(picture.shape)
    for c in range(len(picture)):
        out[c] = (picture[c].astype(np.float64) / scale - mean[c]) / std[c]
    return out


def overlap(cell, cells, pixel, pixels):
    """How much of a pixel lies in a cell, both parts of a line of length 1."""
    low = max(Fraction(cell, cells), Fraction(pixel, pixels))
    high = min(Fraction(cell + 1, cells), Fraction(pixel + 1, pixels))
    return max(Fraction(0), high - low)


def fingerprint(picture):
    """The difference hash of one picture, by exact area averages."""
    channels, tall, broad = picture.shape
    weights = [Fraction(299, 1000), Fraction(587, 1000), Fraction(114, 1000)] if channels == 3 else [Fraction(1)]
    down = {(r, y): overlap(r, 8, y, tall) for r in range(8) for y in range(tall)}
    across = {(k, x): overlap(k, 9, x, broad) for k in range(9) for x in range(broad)}
    cells = [[Fraction(0)] * 9 for _ in range(8)]
    for (r, y), height in down.items():
        for (k, x), width in across.items():
            if height and width:
                light = sum(weight * int(picture[c, y, x]) for c, weight in enumerate(weights))
                cells[r][k] += light * height * width
    return sum(1 << (8 * r + k) for r in range(8) for k in range(8) if cells[r][k] < cells[r][k + 1])
