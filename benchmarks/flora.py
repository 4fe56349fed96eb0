"""Drawing Flora's pictures, against Pillow with four-fold supersampling; and observations without pictures."""

import math

from PIL import Image, ImageDraw

from benchmarks.harness import compare
from shortlist.data import Flora

PICTURES = 4096
FINER = 4


def run() -> None:
    flora = Flora()
    compare(
        "flora-pictures",
        f"{PICTURES:,} pictures, 32 px",
        {
            "specimens": lambda: flora.specimens(PICTURES, seed=1),
            "Pillow, one flower each, supersampled": lambda: [_flower(row, 32) for row in range(PICTURES)],
        },
        rounds=7,
    )
    compare("flora-pictures", "1,024 pictures, 64 px", {"specimens": lambda: flora.specimens(1024, seed=1, size=64)})
    compare("flora-pictures", "1,024 plots, 64 px", {"quadrats": lambda: flora.quadrats(1024, seed=1, size=64)})
    compare("flora-pictures", "100,000 observations, no pictures", {"observe": lambda: flora.observe(100_000, seed=1)})


def _flower(row: int, size: int) -> Image.Image:
    """What a picture costs the ordinary way: ground, stem, shadow, petals, heart, drawn large and shrunk."""
    side = FINER * size
    image = Image.new("RGB", (side, side), (96, 74, 56))
    pen = ImageDraw.Draw(image)
    pen.line((side / 2, side / 2, side * 0.6, side), (74, 118, 58), FINER * 2)
    for shift, colour in ((3, (26, 26, 24)), (0, (246, 212, 44))):
        for petal in range(6):
            angle = (row / 7 + petal / 6) * 2 * math.pi
            x, y = side / 2 + 0.22 * side * math.cos(angle) + shift, side / 2 + 0.22 * side * math.sin(angle) + shift
            pen.ellipse((x - 0.16 * side, y - 0.16 * side, x + 0.16 * side, y + 0.16 * side), colour)
    pen.ellipse((0.4 * side, 0.4 * side, 0.6 * side, 0.6 * side), (62, 40, 34))
    return image.resize((size, size), Image.Resampling.BOX)
