"""What the papers print: their tables of results, row by row as in their text, and their settings.

The tables were copied from the text of the papers by a program, apart from ``published.csv``, which was typed.
"""

import re

PRINTED = {
    ("garcin-2022", "2"): {
        "top": "19.38 14.84 11.4 93.36 94.46 94.24 93.78 93.12",
    },
    ("garcin-2022", "3"): {
        "top": "94.28 94.2 94.46 94.52 94.24 94.64 94.52",
    },
    ("garcin-2022", "4"): {
        "0.0": "94.2±0.1 93.3±0.0 94.4±0.1",
        "0.1": "90.3±0.2 92.2±0.3 91.9±0.1",
        "0.2": "87.6±0.1 90.4±0.2 90.7±0.5",
        "0.3": "85.7±0.4 88.8±0.1 89.7±0.1",
        "0.4": "83.6±0.2 87.4±0.1 87.8±0.6",
    },
    ("garcin-2022", "7"): {
        "0.0": "76.6±0.1 69.2±0.1 68.7±0.3",
        "0.1": "71.0±0.2 71.2±0.4 68.3±0.5",
        "0.2": "68.1±0.1 71.3±0.3 69.4±0.5",
        "0.3": "65.5±0.3 70.8±0.6 69.3±0.3",
        "0.4": "61.8±0.4 70.6±0.2 69.1±0.4",
    },
    ("garcin-2022", "5"): {
        "1": "36.3±0.3 (12.6/42.9/71.7) 35.7±0.2 (13.1/41.5/71.1) 35.8±0.3 (12.4/42.1/72.1) "
        "37.6±0.3 (15.5/43.4/71.4) 40.6±0.1 (20.9/45.8/71.2) 42.4±0.3 (23.9/46.3/72.1)",
        "3": "58.8±0.4 (32.4/75.3/92.0) 50.3±0.2 (16.7/69.8/92.7) 58.7±0.4 (32.2/73.8/88.8) "
        "60.4±0.3 (35.9/74.8/92.0) 63.3±0.3 (43.0/74.1/90.0) 64.9±0.4 (44.8/74.5/92.1)",
        "5": "68.7±0.2 (45.1/86.3/95.4) 50.9±0.3 (12.1/78.1/95.7) 66.4±0.5 (42.0/82.5/95.5) "
        "69.7±0.2 (47.5/84.8/95.8) 71.9±0.3 (54.0/83.0/94.0) 73.2±0.5 (55.3/84.2/95.3)",
    },
    ("garcin-2022", "6"): {
        "1": "37.0±0.1 (1.5/28.2/60.6) 37.3±0.1 (1.3/28.6/60.7) 37.7±0.0 (2.4/29.8/59.9) "
        "39.3±0.2 (10.5/33.1/57.1) 38.7±0.0 (7.6/32.3/57.6)",
        "3": "55.5±0.1 (8.2/53.0/75.3) 42.0±0.1 (0.0/29.1/72.9) 56.2±0.0 (10.2/54.0/75.1) "
        "56.0±0.2 (24.1/52.0/72.3) 56.5±0.1 (27.0/52.6/71.7)",
        "5": "63.2±0.1 (15.8/63.1/80.1) 39.0±0.1 (0.0/20.7/75.5) 63.8±0.1 (17.8/63.6/80.3) "
        "63.1±0.2 (32.9/60.1/77.7) 63.5±0.1 (37.0/60.2/77.0)",
    },
    ("garcin-2022", "8"): {
        "1": "80.1±0.1 79.8±0.0 80.8±0.1 79.8±0.1 79.6±0.1 81.0±0.1",
        "3": "93.1±0.0 93.2±0.0 93.5±0.1 93.5±0.0 92.3±0.1 93.5±0.1",
        "5": "95.7±0.0 95.0±0.1 95.8±0.0 96.0±0.0 95.2±0.2 95.8±0.1",
        "10": "97.5±0.0 95.5±0.0 97.5±0.0 97.7±0.0 97.2±0.1 97.5±0.0",
    },
    ("garcin-2022", "9"): {
        "1": "72.24±0.15 71.43±0.14 72.46±0.15",
        "5": "90.60±0.05 90.71±0.06 90.52±0.07",
    },
    ("garcin-2023", "1"): {
        "average-5": "96.83±0.16 97.35±0.06 96.12±0.11 96.71±0.02 95.88±0.05 96.32±0.05",
    },
    ("garcin-2023", "2"): {
        "CE": "89.63±0.08 (27.08/65.83/85.97) 92.64±0.17 (38.44/75.55/90.50) "
        "95.11±0.18 (35.39/83.65/94.59) 97.11±0.09 (46.58/91.71/97.30)",
        "TOP-K": "90.48±0.05 (24.98/63.08/87.21) 93.60±0.09 (38.46/73.67/91.85) "
        "95.75±0.07 (49.90/81.39/95.00) 97.26±0.03 (56.49/88.78/97.26)",
        "AVG-K": "90.34±0.06 (23.77/61.81/86.74) 93.81±0.10 (40.39/76.50/92.17) "
        "96.42±0.09 (55.83/88.19/95.90) 98.23±0.03 (75.75/94.14/98.08)",
        "AN": "85.41±0.15 (2.05/30.26/76.64) 90.15±0.17 (7.46/47.20/86.04) "
        "93.88±0.12 (20.31/67.55/92.66) 96.86±0.06 (42.61/85.49/96.87)",
        "EPR": "86.30±0.17 (9.01/37.27/77.72) 90.49±0.14 (18.49/51.58/85.19) "
        "93.63±0.04 (31.02/65.85/90.79) 95.99±0.04 (41.44/78.61/95.09)",
    },
    ("garcin-thesis", "3.1"): {
        "ResNet-50": "0.09 0.35 0.59 0.79 0.93",
    },
    ("liao", "I"): {
        "Binary": "4.8 35.4 × ×",
        "Quasibinary": "4.9 21.9 42.9 25.4",
        "Softmax": "5.2 22.2 43.3 23.9",
    },
    ("liao", "I (supplement)"): {
        "ResNet-18 Binary": "4.8 35.4 ×",
        "ResNet-18 Quasibinary": "4.9 21.9 42.9",
        "ResNet-18 Softmax": "5.2 22.2 43.3",
        "DenseNet-40 Binary": "8.6 × ×",
        "DenseNet-40 Quasibinary": "6.7 32.6 55.0",
        "DenseNet-40 Softmax": "6.4 31.2 53.0",
        "VGG-16 Binary": "6.1 25.8 ×",
        "VGG-16 Quasibinary": "8.3 25.5 48.9",
        "VGG-16 Softmax": "8.0 25.8 48.7",
    },
    ("liao", "II"): {
        "Binary classifiers": "77.8 14.7 0.901",
        "Softmax + uniform": "80.7 59.8 0.800",
        "Softmax + max. confidence": "45.2 7.4 0.764",
        "Quasibinary classifier": "80.6 6.9 0.913",
    },
    ("liao", "III"): {
        "Binary classifier": "51.2 26.8 40.7 23.6",
        "Softmax": "54.7 32.2 43.2 25.8",
        "Softmax w/ temperature": "54.7 31.4 43.2 24.6",
        "Quasibinary classifier": "54.7 2.8 43.5 3.3",
    },
    ("cheng", "3"): {
        "coco BCE": "72.2 82.4 8.2 17.0 70.1 81.9 6.0 15.5",
        "coco TWL": "77.2 87.9 17.2 33.6 76.2 88.0 14.2 31.3",
        "coco Focal": "74.8 85.9 20.1 34.9 72.0 83.8 23.6 36.2",
        "coco Focal+φ": "- - 11.1 20.3 - - 8.5 17.9",
        "coco ASY": "77.5 88.2 30.6 46.0 76.4 87.7 29.5 48.6",
        "coco ASY+φ": "77.0 87.8 15.0 26.0 76.2 87.3 16.2 26.2",
        "coco SPA": "77.8 88.4 5.3 12.0 76.8 87.9 4.8 10.7",
        "coco SPA + LPR": "77.7 88.6 4.2 9.3 76.6 88.1 2.1 5.3",
        "voc BCE": "85.1 92.4 6.9 13.8 86.9 92.7 7.8 16.7",
        "voc TWL": "89.1 93.7 10.8 22.0 90.1 94.5 14.5 28.3",
        "voc Focal": "87.4 93.3 19.0 35.8 88.4 93.6 16.2 31.7",
        "voc Focal+φ": "- - 7.0 16.5 - - 9.3 20.7",
        "voc ASY": "89.6 94.6 26.4 47.7 90.4 94.7 31.7 52.8",
        "voc ASY+φ": "89.1 94.3 12.9 24.7 89.8 94.2 15.5 33.0",
        "voc SPA": "89.5 94.1 5.4 14.9 90.0 93.9 6.1 14.4",
        "voc SPA + LPR": "89.9 94.3 4.9 11.0 90.4 94.8 5.5 12.7",
        "wider-attribute BCE": "74.9 82.8 11.5 25.2 76.7 83.2 8.6 13.3",
        "wider-attribute TWL": "79.9 85.5 14.3 29.0 81.6 87.6 16.7 32.3",
        "wider-attribute Focal": "78.5 84.1 20.1 34.2 80.8 85.2 18.8 31.2",
        "wider-attribute Focal+φ": "- - 9.3 21.0 - - 7.4 16.5",
        "wider-attribute ASY": "80.6 86.0 24.2 35.2 82.2 87.8 22.8 36.3",
        "wider-attribute ASY+φ": "79.9 85.4 14.3 27.5 81.8 87.2 13.3 20.7",
        "wider-attribute SPA": "80.1 85.8 5.3 11.2 82.0 87.6 4.3 10.5",
        "wider-attribute SPA + LPR": "80.3 85.9 3.5 8.0 82.7 87.9 2.8 6.2",
    },
    ("cheng", "4"): {
        "BCE": "72.2 82.4 8.2 17.0",
        "BCE + LPR": "72.4 82.9 6.5 14.8",
        "Focal": "74.8 85.9 20.1 34.9",
        "Focal + LPR": "75.1 86.3 19.7 36.4",
        "ASY": "77.5 88.2 30.6 46.0",
        "ASY + LPR": "77.2 88.1 29.4 44.7",
    },
    ("cheng", "2"): {
        "classes": "80 20 14 68",
        "rows train": "82081 5717 28340 14167",
        "rows test": "40137 5823 29117 8000",
        "ratio": "0.04 0.08 0.26 0.08",
    },
}

CELL = re.compile(r"(?P<value>\d+(?:\.\d+)?|×|-)(?:±(?P<spread>[\d.]+))?(?: \((?P<groups>[\d./]+)\))?")
GROUPS = ("few", "medium", "many")


def methods(*names):
    return [{"method": name} for name in names]


def sizes(metric, *values):
    return [{"metric": metric, "k": k} for k in values]


BALANCED = methods("cross-entropy", "smooth-topk", "noised-topk")
TAIL = methods("cross-entropy", "smooth-topk", "noised-topk", "focal", "ldam", "noised-topk-imbalanced")
IMAGES = [{"dataset": name} for name in ("cifar10", "cifar100", "tiny-imagenet", "imagenet")]
NETWORKS = ("ECA-ResNet50-T", "ViT-B/32")
MULTILABEL = ("mAP@y", "mAP@x", "ACE", "MCE")
CLASSIFIERS = {"Binary": "bce", "Quasibinary": "quasibinary", "Softmax": "cross-entropy"}
RIVALS = {
    "CE": "cross-entropy",
    "TOP-K": "noised-topk",
    "AVG-K": "average-k",
    "AN": "assume-negative",
    "EPR": "expected-positive",
}


def _classifier(label):
    *network, name = label.split()
    return {"method": CLASSIFIERS[name], "metric": "top-1 error", "backbone": network[0] if network else "ResNet-18"}


def _dataset_and_name(label):
    dataset, _, name = label.partition(" ")
    return {"dataset": dataset, "printed": name}


# Of each table: what the label of a row says, and what its columns are.
AXES = {
    ("garcin-2022", "2"): (
        lambda _: {"k": 5, "split": "val"},
        [{"settings": {"epsilon": e, "samples": "10"}} for e in ["0", "0.0001", "0.001", "0.01", "0.1", "1", "10", "100"]],
    ),
    ("garcin-2022", "3"): (
        lambda _: {"k": 5, "split": "val"},
        [{"settings": {"epsilon": "0.2", "samples": b}} for b in ["1", "2", "3", "5", "10", "50", "100"]],
    ),
    ("garcin-2022", "4"): (lambda noise: {"noise": float(noise), "metric": "top-k", "k": 5}, BALANCED),
    ("garcin-2022", "7"): (lambda noise: {"noise": float(noise), "metric": "top-k", "k": 1}, BALANCED),
    ("garcin-2022", "5"): (lambda k: {"k": int(k), "metric": "macro-top-k"}, TAIL),
    ("garcin-2022", "6"): (lambda k: {"k": int(k), "metric": "top-k"}, [TAIL[0], TAIL[1], *TAIL[3:]]),
    ("garcin-2022", "8"): (lambda k: {"k": int(k), "metric": "top-k"}, TAIL),
    ("garcin-2022", "9"): (lambda k: {"k": int(k), "metric": "top-k", "dataset": "imagenet"}, BALANCED),
    ("garcin-2023", "1"): (
        lambda _: {"metric": "average-k", "k": 5},
        methods("cross-entropy", "average-k", "role", "assume-negative", "expected-positive", "noised-topk"),
    ),
    ("garcin-2023", "2"): (lambda name: {"method": RIVALS[name]}, sizes("average-k", 2, 3, 5, 10)),
    ("garcin-thesis", "3.1"): (
        lambda network: {"backbone": network, "metric": "top-k", "k": 1, "unit": "share"},
        [{"group": group} for group in ("0-10", "11-50", "51-500", "501-2000", "2001+")],
    ),
    ("liao", "I"): (_classifier, IMAGES),
    ("liao", "I (supplement)"): (_classifier, IMAGES[:3]),
    ("liao", "II"): (
        lambda name: {"printed": name},
        [{"metric": "top-1 in"}, {"metric": "confidence out"}, {"metric": "AUROC", "unit": "share"}],
    ),
    ("liao", "III"): (
        lambda name: {"printed": name, "k": 4},
        [{"dataset": data, "metric": metric} for data in ("coco", "nus-wide") for metric in ("macro-F1", "ECE")],
    ),
    ("cheng", "3"): (
        _dataset_and_name,
        [{"backbone": network, "metric": metric} for network in NETWORKS for metric in MULTILABEL],
    ),
    ("cheng", "4"): (lambda name: {"printed": name}, [{"metric": metric} for metric in MULTILABEL]),  # headers put right
    ("cheng", "2"): (
        lambda label: {
            "classes": {"metric": "classes"},
            "rows train": {"metric": "rows", "split": "train"},
            "rows test": {"metric": "rows", "split": "test"},
            "ratio": {"metric": "positive per negative label"},
        }[label],
        [{"dataset": name} for name in ("coco", "voc", "wider-attribute", "vispr")],
    ),
}


def cells(paper, table):
    """Each number of a printed table: what it is the number of, the number, and what follows ±."""
    of_row, columns = AXES[paper, table]
    for label, line in PRINTED[paper, table].items():
        found = list(CELL.finditer(line))
        assert len(found) == len(columns)
        for cell, column in zip(found, columns, strict=True):
            if cell["value"] in "×-":
                continue
            what = {"group": "", **of_row(label), **column}
            yield what, float(cell["value"]), float(cell["spread"]) if cell["spread"] else None
            for group, number in zip(GROUPS, (cell["groups"] or "").split("/"), strict=bool(cell["groups"])):
                if number:
                    yield what | {"group": group}, float(number), None


# Typed from the papers' sections on training: epochs, batch, rate, decay of the rate at, weight decay.
TRAINING = {
    "cifar100-top5": (300, 64, 0.1, (150, 225), 1e-4, "densenet-40-40"),
    "cifar100-average5": (300, 64, 0.1, (150, 225), 1e-4, "densenet-40-40"),
    "plantnet-top5": (30, 32, 0.002, (20, 25), 1e-4, "torchvision:resnet50"),
    "plantnet-average5": (30, 32, 0.002, (25,), 1e-4, "torchvision:resnet18"),
    "imagenet-lt-top5": (100, 128, 0.01, (60, 80), 2e-3, "resnet-34/4"),
    "imagenet-top5": (120, 120, 0.1, (30, 60, 90), 1.5e-4, "resnet-18/4"),
    "cifar60-40": (200, 64, 0.1, (100, 150), 1e-4, "resnet-18"),
    "cifar10-quasibinary": (200, 64, 0.1, (100, 150), 1e-4, "resnet-18"),
    "imagenet-quasibinary": (200, 64, 0.1, (100, 150), 1e-4, "resnet-18/4"),
    "plantnet-cross-entropy": (30, 32, 0.01, (20, 25), 1e-4, "torchvision:resnet50"),
    "plantnet-cross-entropy-small": (30, 32, 0.001, (20, 25), 1e-4, "torchvision:mobilenet_v3_small"),
    "plantnet-cross-entropy-efficientnet": (20, 32, 0.01, (10, 15), 1e-4, "torchvision:efficientnet_b0"),
    "plantnet-cross-entropy-transformer": (20, 32, 5e-4, (15,), 1e-4, "timm:vit_base_patch16_224"),
}
