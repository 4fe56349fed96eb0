"""Fixed hashes of whole numbers: the same on every machine, for choices and comparisons that need no secret."""

import numpy as np
import numpy.typing as npt


def hashed(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A fixed hash of each number (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).

    >>> hashed(np.array([0, 1])).tolist()
    [16294208416658607535, 7960286522194355700]
    """
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
