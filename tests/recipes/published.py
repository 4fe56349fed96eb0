"""What the papers print: numbers and settings, typed from their tables."""


def row(method, metric, *numbers, at):
    """Numbers of a row of a table, by the settings of its columns."""
    start = f"{method}: " if method else ""
    return {f"{start}{metric.format(place)}": number for place, number in zip(at, numbers, strict=True)}


# Typed from the papers' tables.
NOISE = (0, 0.1, 0.2, 0.3, 0.4)
EXPECTED = {
    "cifar100-top5": row("", "top-5 at noise {}", 94.4, 91.9, 90.7, 89.7, 87.8, at=NOISE)
    | row("cross-entropy", "top-5 at noise {}", 94.2, 90.3, 87.6, 85.7, 83.6, at=NOISE)
    | row("smooth-topk", "top-5 at noise {}", 93.3, 92.2, 90.4, 88.8, 87.4, at=NOISE),
    "cifar100-average5": {
        "average-5": 97.35,
        "cross-entropy: average-5": 96.83,
        "role: average-5": 96.12,
        "assume-negative: average-5": 96.71,
        "expected-positive: average-5": 95.88,
        "noised-topk: average-5": 96.32,
    },
    "cifar60-40": row("", "{}", 80.6, 6.9, 91.3, at=("accuracy IN", "MMC OUT", "AUROC"))
    | row("bce", "{}", 77.8, 14.7, 90.1, at=("accuracy IN", "MMC OUT", "AUROC"))
    | row("softmax-uniform", "{}", 80.7, 59.8, 80.0, at=("accuracy IN", "MMC OUT", "AUROC"))
    | row("softmax-confidence", "{}", 45.2, 7.4, 76.4, at=("accuracy IN", "MMC OUT", "AUROC")),
    "coco-quasibinary": {
        "macro-F1 of the top 4": 54.7,
        "ECE of the top 4": 2.8,
        "bce: macro-F1 of the top 4": 51.2,
        "bce: ECE of the top 4": 26.8,
    },
    "nus-wide-quasibinary": {
        "macro-F1 of the top 4": 43.5,
        "ECE of the top 4": 3.3,
        "bce: macro-F1 of the top 4": 40.7,
        "bce: ECE of the top 4": 23.6,
    },
}
MULTILABEL = ("mAP@y", "mAP@x", "ACE", "MCE")
COCO = {
    "bce": (72.2, 82.4, 8.2, 17.0),
    "two-way": (77.2, 87.9, 17.2, 33.6),
    "focal-multilabel": (74.8, 85.9, 11.1, 20.3),
    "asy": (77.0, 87.8, 15.0, 26.0),
    "spa": (77.8, 88.4, 5.3, 12.0),
    "spa-label-pair": (77.7, 88.6, 4.2, 9.3),
}
VOC = {
    "bce": (85.1, 92.4, 6.9, 13.8),
    "two-way": (89.1, 93.7, 10.8, 22.0),
    "focal-multilabel": (87.4, 93.3, 7.0, 16.5),
    "asy": (89.1, 94.3, 12.9, 24.7),
    "spa": (89.5, 94.1, 5.4, 14.9),
    "spa-label-pair": (89.9, 94.3, 4.9, 11.0),
}
for data, table in (("coco", COCO), ("voc", VOC)):
    for own in ("spa", "spa-label-pair"):
        EXPECTED[f"{data}-{own}"] = {
            name: number
            for method, numbers in table.items()
            for name, number in row("" if method == own else method, "{}", *numbers, at=MULTILABEL).items()
        }
for place, k in enumerate((1, 3, 5)):
    plantnet = {
        "cross-entropy": (36.3, 58.8, 68.7),
        "smooth-topk": (35.7, 50.3, 50.9),
        "noised-topk": (35.8, 58.7, 66.4),
        "focal": (37.6, 60.4, 69.7),
        "ldam": (40.6, 63.3, 71.9),
        "": (42.4, 64.9, 73.2),
    }
    EXPECTED[f"plantnet-top{k}"] = {
        name: number
        for method, numbers in plantnet.items()
        for name, number in row(method, "macro-top-{}", numbers[place], at=(k,)).items()
    }
    imagenet = {  # all classes, few shot
        "cross-entropy": ((37.0, 1.5), (55.5, 8.2), (63.2, 15.8)),
        "smooth-topk": ((37.3, 1.3), (42.0, 0.0), (39.0, 0.0)),
        "focal": ((37.7, 2.4), (56.2, 10.2), (63.8, 17.8)),
        "ldam": ((39.3, 10.5), (56.0, 24.1), (63.1, 32.9)),
        "": ((38.7, 7.6), (56.5, 27.0), (63.5, 37.0)),
    }
    EXPECTED[f"imagenet-lt-top{k}"] = {
        name: number
        for method, numbers in imagenet.items()
        for name, number in row(method, "top-{}", *numbers[place], at=(f"{k}", f"{k}, few shot")).items()
    }
for place, k in enumerate((2, 3, 5, 10)):
    average = {  # all classes, few shot
        "cross-entropy": ((89.63, 27.08), (92.64, 38.44), (95.11, 35.39), (97.11, 46.58)),
        "noised-topk": ((90.48, 24.98), (93.60, 38.46), (95.75, 49.90), (97.26, 56.49)),
        "": ((90.34, 23.77), (93.81, 40.39), (96.42, 55.83), (98.23, 75.75)),
        "assume-negative": ((85.41, 2.05), (90.15, 7.46), (93.88, 20.31), (96.86, 42.61)),
        "expected-positive": ((86.30, 9.01), (90.49, 18.49), (93.63, 31.02), (95.99, 41.44)),
    }
    EXPECTED[f"plantnet-average{k}"] = {
        name: number
        for method, numbers in average.items()
        for name, number in row(method, "average-{}", *numbers[place], at=(f"{k}", f"{k}, few shot")).items()
    }

# Typed from the papers' sections on training: epochs, batch, rate, decay of the rate at, weight decay.
TRAINING = {
    "cifar100-top5": (300, 64, 0.1, (150, 225), 1e-4, "densenet-40-40"),
    "cifar100-average5": (300, 64, 0.1, (150, 225), 1e-4, "densenet-40-40"),
    "plantnet-top5": (30, 32, 0.002, (20, 25), 1e-4, "torchvision:resnet50"),
    "plantnet-average5": (30, 32, 0.002, (25,), 1e-4, "torchvision:resnet18"),
    "imagenet-lt-top5": (100, 128, 0.01, (60, 80), 2e-3, "resnet-34/4"),
    "cifar60-40": (200, 64, 0.1, (100, 150), 1e-4, "resnet-18"),
}
