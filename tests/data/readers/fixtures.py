"""Tiny datasets, written in exactly the layout in which the real ones are published."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

RECORDS = 3


def picture(path, size=8, mode="RGB"):
    """A picture file of one colour, with its folders."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (size, size), 128).save(path, format="PNG" if path.suffix.lower() == ".png" else "JPEG")
    return path


def pictures(root, *paths):
    for path in paths:
        picture(Path(root) / path)


def text(path, *lines, end="\n"):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + end for line in lines), encoding="utf-8")
    return path


def dump(path, document):
    return text(path, json.dumps(document))


def kinds(dataset):
    """The problems by kind, each with where it is."""
    found = {}
    for problem in dataset.problems:
        found.setdefault(problem.kind, []).append(problem.where)
    return found


def cifar_bytes(labels, seed=0):
    """Records of label bytes and 3,072 random pixels each."""
    labels = np.asarray(labels, np.uint8)
    labels = labels[:, None] if labels.ndim == 1 else labels
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    return np.concatenate([labels, pixels], 1)


def cifar10(root):
    """Five training batches of the labels (0, 1, 2), (1, 2, 0), …, and a test batch."""
    home = root / "cifar-10-batches-bin"
    text(home / "batches.meta.txt", "airplane", "automobile", "bird", "")
    for number in range(1, 6):
        cifar_bytes((np.arange(RECORDS) + number - 1) % 3, seed=number).tofile(home / f"data_batch_{number}.bin")
    cifar_bytes([2, 1, 0], seed=9).tofile(home / "test_batch.bin")
    return home


def cifar100(root, train=((1, 0), (0, 1), (1, 2)), test=((1, 2), (1, 0))):
    """Records of (coarse, fine) labels."""
    home = root / "cifar-100-binary"
    text(home / "fine_label_names.txt", "apple", "bear", "cup")
    text(home / "coarse_label_names.txt", "beasts", "things", "")
    cifar_bytes(train).tofile(home / "train.bin")
    cifar_bytes(test, seed=1).tofile(home / "test.bin")
    return home


def tiny_imagenet(root):
    home = root / "tiny-imagenet-200"
    text(home / "wnids.txt", "n02124075", "n01443537")
    text(home / "words.txt", "n00001740\tentity", "n01443537\tgoldfish, Carassius auratus", "n02124075\tEgyptian cat")
    for synset in ("n01443537", "n02124075"):
        pictures(home, *(f"train/{synset}/images/{synset}_{number}.JPEG" for number in range(2)))
        text(home / f"train/{synset}/{synset}_boxes.txt", f"{synset}_0.JPEG\t0\t10\t63\t58")
    pictures(home, "val/images/val_0.JPEG", "val/images/val_1.JPEG", "test/images/test_0.JPEG")
    lines = ("val_0.JPEG\tn02124075\t0\t32\t44\t62", "val_1.JPEG\tn01443537\t52\t55\t57\t59")
    text(home / "val/val_annotations.txt", *lines)
    return home


SYNSETS = ("n01440764", "n02012849", "n03126707")
DESCRIPTIONS = ("tench, Tinca tinca", "crane", "crane")


def imagenet(root, flat):
    """Training pictures in class folders; three validation pictures, of classes 2, 0 and 1."""
    for synset in SYNSETS:
        pictures(root, f"train/{synset}/{synset}_7.JPEG", f"train/{synset}/{synset}_190.JPEG")
    for number, label in enumerate((2, 0, 1), start=1):
        name = f"ILSVRC2012_val_{number:08d}.JPEG"
        picture(root / "val" / name if flat else root / "val" / SYNSETS[label] / name)
    return root


def synset_mapping(root):
    return text(root / "LOC_synset_mapping.txt", *(f"{s} {d}" for s, d in zip(SYNSETS, DESCRIPTIONS, strict=True)))


def val_solution(root, synsets=(SYNSETS[2], SYNSETS[0], SYNSETS[1])):
    rows = [f"ILSVRC2012_val_{n:08d},{s} 85 1 499 272 {s} 1 2 3 4 " for n, s in enumerate(synsets, start=1)]
    return text(root / "LOC_val_solution.csv", "ImageId,PredictionString", *rows)


def devkit(root, truth=(2, 3, 1)):
    """Class numbers that are not in the order of the WordNet ids, and a synset with children, which is no class."""
    from scipy.io import savemat

    folder = root / "ILSVRC2012_devkit_t12/data"
    fields = [(name, object) for name in ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children")]
    numbers = {SYNSETS[0]: 3, SYNSETS[1]: 1, SYNSETS[2]: 2}
    rows = [(numbers[s], s, d, "", 0) for s, d in zip(SYNSETS, DESCRIPTIONS, strict=True)]
    rows.append((4, "n00001740", "entity", "", 3))
    folder.mkdir(parents=True, exist_ok=True)
    savemat(folder / "meta.mat", {"synsets": np.array(rows, fields)})
    text(folder / "ILSVRC2012_validation_ground_truth.txt", *map(str, truth))
    return folder


def imagenet_lt(folder):
    text(
        folder / "ImageNet_LT_train.txt",
        "train/n01440764/n01440764_190.JPEG 0",
        "train/n02012849/n02012849_7.JPEG 1",
        "train/n03126707/n03126707_7.JPEG 2",
    )
    text(folder / "ImageNet_LT_val.txt", "train/n01440764/n01440764_7.JPEG 0", "train/n02012849/n02012849_190.JPEG 1")
    text(
        folder / "ImageNet_LT_test.txt",
        "val/n01440764/ILSVRC2012_val_00000002.JPEG 0",
        "val/n03126707/ILSVRC2012_val_00000001.JPEG 2",
    )
    return folder


SPECIES = {"1355868": "Lactuca virosa L.", "1355920": "Pelargonium capitatum (L.) L'Hér.", "1356257": "Lactuca virosa L."}
PLANTNET = {
    "aa": {"species_id": "1355920", "obs_id": "7", "author": "Ada", "split": "train", "organ": "flower", "license": "cc-by-sa"},
    "bb": {"species_id": "1355868", "obs_id": "7", "author": "Bob", "split": "train"},
    "cc": {"species_id": "1356257", "obs_id": None, "author": "Bob", "split": "train"},
    "dd": {"species_id": "1355868", "obs_id": "9", "author": "Ada", "split": "val"},
    "ee": {"species_id": "1355920", "obs_id": "8", "author": "Ada", "split": "test"},
}


def plantnet(root, *, later=True, metadata=PLANTNET):
    """Version 1.1, or the other layout that is in use."""
    home = root / "plantnet_300K"
    for name, entry in metadata.items():
        folder = f"images/{entry['split']}" if later else f"images_{entry['split']}"
        picture(home / folder / entry["species_id"] / f"{name}.jpg")
    dump(home / "plantnet300K_metadata.json", metadata)
    dump(home / ("plantnet300K_species_id_2_name.json" if later else "plantnet300K_species_names.json"), SPECIES)
    return home


def coco(root, year=2017):
    """Three training pictures, the second without annotation and the third with a crowd; one validation picture."""
    categories = [
        {"supercategory": "outdoor", "id": 13, "name": "stop sign"},
        {"supercategory": "person", "id": 1, "name": "person"},
        {"supercategory": "outdoor", "id": 11, "name": "fire hydrant"},
    ]

    def image(number, split):
        prefix = "" if year == 2017 else f"COCO_{split}{year}_"
        return {"license": 3, "file_name": f"{prefix}{number:012d}.jpg", "height": 8, "width": 8, "id": number}

    def annotation(number, image_id, category_id, iscrowd=0):
        outline = {"counts": [1, 2], "size": [8, 8]} if iscrowd else [[1.5, 2.25, 3.0, 4.5]]
        box = [1.0, 2.5, 3.25, 4.0]
        return {
            "segmentation": outline,
            "area": 7.5,
            "iscrowd": iscrowd,
            "image_id": image_id,
            "bbox": box,
            "category_id": category_id,
            "id": number,
        }

    documents = {
        "train": (
            [image(number, "train") for number in (9, 25, 30)],
            [annotation(1, 9, 13), annotation(2, 9, 1), annotation(3, 9, 13), annotation(4, 30, 11, iscrowd=1)],
        ),
        "val": ([image(139, "val")], [annotation(5, 139, 1)]),
    }
    for split, (images, annotations) in documents.items():
        document = {"info": {}, "licenses": [], "images": images, "annotations": annotations, "categories": categories}
        dump(root / f"annotations/instances_{split}{year}.json", document)
        pictures(root, *(f"{split}{year}/{one['file_name']}" for one in images))
    return root


RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")


def inaturalist(root, year=2018):
    """Three categories; two training pictures of the first holder, one without any, and a validation picture."""
    top = {2017: "train_val_images", 2018: "train_val2018", 2019: "train_val2019"}.get(year)
    genera = ("Apis", "Quercus", "Quercus")
    categories = []
    for number, (above, genus) in enumerate(zip(("Insects", "Plants", "Plants"), genera, strict=True)):
        category = {"id": number, "name": f"code {number}"}
        if year != 2019:
            category["supercategory"] = above
        if year != 2017:
            category |= dict.fromkeys(RANKS, above) | {"genus": genus}
        categories.append(category)
    labels = {"train": (2, 0, 1), "val": (0,)}
    for split, chosen in labels.items():
        images, annotations = [], []
        for place, label in enumerate(chosen):
            number = 10 * len(chosen) - place
            folder = (
                f"{split}/{label:05d}_Animalia"
                if year == 2021
                else f"{top}/{categories[label].get('supercategory', 'Some')}/{label}"
            )
            holder = ("Ada", "Ada", "")[place]
            images.append(
                {
                    "id": number,
                    "width": 8,
                    "height": 8,
                    "file_name": f"{folder}/{split}{place}.jpg",
                    "license": 0,
                    "rights_holder": holder,
                }
            )
            annotations.append({"id": number, "image_id": number, "category_id": label})
        document = {"info": {}, "images": images, "categories": categories, "annotations": annotations[::-1], "licenses": []}
        dump(root / (f"{split}.json" if year == 2021 else f"{split}{year}.json"), document)
        pictures(root, *(one["file_name"] for one in images))
    return root


VOC_MARKS = {
    "train": {"cat": (1, -1, 0), "person": (-1, 1, 1), "sofa": (-1, -1, -1)},
    "val": {"cat": (1,), "person": (1,), "sofa": (1,)},
    "test": {"cat": (-1,), "person": (1,), "sofa": (-1,)},
}


def voc(root, year=2007, splits=("train", "val", "test")):
    home = root / f"VOCdevkit/VOC{year}"
    number = 5
    for split in splits:
        marks = VOC_MARKS[split]
        names = [f"{number + place:06d}" for place in range(len(marks["cat"]))]
        number += len(names)
        text(home / f"ImageSets/Main/{split}.txt", *names)
        for name, values in marks.items():
            lines = (f"{one} {value:2d}" for one, value in zip(names, values, strict=True))
            text(home / f"ImageSets/Main/{name}_{split}.txt", *lines)
        pictures(home, *(f"JPEGImages/{one}.jpg" for one in names))
    text(home / "ImageSets/Main/trainval.txt", "000005")
    text(home / "ImageSets/Main/cat_trainval.txt", "000005  1")
    return home


def omniglot(root, merged=False):
    """Two characters of a background alphabet and one of an evaluation alphabet, drawn by 1, 14, 15 and 20."""
    characters = (
        ("background", "Ge_ez", 1, 12),
        ("background", "Ge_ez", 2, 13),
        ("evaluation", "Malay_(Jawi_-_Arabic)", 1, 965),
    )
    for published, alphabet, character, number in characters:
        top = "omniglot_resized" if merged else f"images_{published}"
        for drawer in (1, 14, 15, 20):
            picture(root / top / alphabet / f"character{character:02d}" / f"{number:04d}_{drawer:02d}.png", mode="1")
    return root


def person(*present, unspecified=(), box=(0, 0, 4, 8), attributes=14):
    marks = [-1] * attributes
    for place in present:
        marks[place] = 1
    for place in unspecified:
        marks[place] = 0
    return {"bbox": list(box), "attribute": marks}


WIDER_NAMES = ["Male", "longHair", "sunglass", "Hat", "Tshirt", "longSleeve", "formal"]
WIDER_NAMES += ["shorts", "jeans", "longPants", "skirt", "faceMask", "logo", "stripe"]
WIDER = {
    "train/0--Parade/a.jpg": [person(0, 3), person(3, 13, box=(4.5, 0, 3, 8), unspecified=(1,))],
    "val/0--Parade/b.jpg": [person(unspecified=(0,))],
    "test/1--Handshaking/c.jpg": [person(0, 10)],
}


def wider_attribute(root, images=WIDER, names=WIDER_NAMES, folder="wider_attribute_annotation"):
    pictures(root / "Image", *images)
    entries = [{"file_name": name, "scene_id": 0, "targets": targets} for name, targets in images.items()]
    for file, splits in (("trainval", ("train", "val")), ("test", ("test",))):
        document = {"images": [entry for entry in entries if entry["file_name"].split("/")[0] in splits]}
        if names is not None:
            document["attribute_id_map"] = {str(place): name for place, name in enumerate(names)}
            document["scene_id_map"] = {"0": "Parade"}
        dump(root / folder / f"wider_attribute_{file}.json", document)
    return root


VISPR = {
    "train2017/2017_1": ["a4_gender", "a9_old"],
    "val2017/2017_2": ["a0_safe"],
    "test2017/2017_3": ["a9_old"],
    "train2017/2017_4": ["a10_face", "a4_gender"],
}


def vispr(root, labels=VISPR, *, images="images/", table=True):
    for name, own in labels.items():
        picture(root / f"{images}{name}.jpg")
        document = {"id": name, "image_path": f"images/{name}.jpg", "labels": own, "image_size": [8, 8]}
        dump(root / f"annotations/{name}.json", document)
    if table:
        lines = ["2\ta10_face\tFace", "0\ta0_safe\tSafe", "1\ta4_gender\tGender", "\ta9_old\tno longer used"]
        text(root / "attributes.tsv", "idx\tattribute_id\tdescription", *lines)
    return root
