"""Archives of small pictures, each unlike every other, for the tests of whatever builds from them."""

from PIL import Image

from tests.data.drawings import noise

TREES = {"Acer campestre": 10, "Acer rubrum": 6, "Ilex aquifolium": 5, "Quercus alba": 3, "Quercus robur": 12}
SMALL = {"Acer campestre": 5, "Acer rubrum": 6, "Ilex aquifolium": 7}


def plant(folder, classes=TREES, *, broken=(), seed=0):
    """The folder, with a folder for each class and so many pictures in it; ``broken`` ones (class/number.png) are no pictures.

    The prints of two pictures of noise differ in 32 of 64 bits on average: that two of a hundred are near (3 bits) has a
    probability of about 1e-11.
    """
    for place, (name, count) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            path = folder / name / f"{number}.png"
            if f"{name}/{number}.png" in broken:
                path.write_bytes(b"no picture")
            else:
                Image.fromarray(noise(9, 9, seed=[seed, place, number])).save(path)
    return folder
