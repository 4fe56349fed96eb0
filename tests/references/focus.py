"""Sharpness, typed from its definition."""

import numpy as np


def sharpness(picture):
    """Variance of the discrete Laplacian of the brightness, pixel by pixel, of one picture (3, H, W)."""
    red, green, blue = (np.asarray(channel, dtype=np.float64) for channel in picture)
    grey = 0.299 * red + 0.587 * green + 0.114 * blue
    height, width = grey.shape
    values = []
    for row in range(1, height - 1):
        for column in range(1, width - 1):
            around = grey[row - 1, column] + grey[row + 1, column] + grey[row, column - 1] + grey[row, column + 1]
            values.append(around - 4 * grey[row, column])
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)
