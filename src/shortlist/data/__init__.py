"""Data: a garden whose optimum is known, readers of the papers' datasets, splits, transforms, benchmarks, labels from votes."""

from typing import TYPE_CHECKING

from shortlist.lazy import loaded_on_use

if TYPE_CHECKING:
    from shortlist.data.building import Built, build_benchmark, choose_classes, divide, pooled
    from shortlist.data.dataset import Dataset, Split
    from shortlist.data.decoding import PictureError, read_picture
    from shortlist.data.downloads import download_cifar10, download_cifar100, download_omniglot, fetch, unpack
    from shortlist.data.duplicates import NearDuplicates, fingerprints, near_duplicates, straddling, warn_straddling
    from shortlist.data.flora.garden import Flora
    from shortlist.data.flora.limits import Limits, best_accuracies
    from shortlist.data.inspection import Inspection, inspect_pictures, warn_duplicates
    from shortlist.data.label_noise import noisy_posterior, superclass_noise
    from shortlist.data.loading import Loaded, load_pictures, picture_batches
    from shortlist.data.manifest import write_benchmark
    from shortlist.data.new_rows import NewRows
    from shortlist.data.open_set import unlabel
    from shortlist.data.picture_bytes import PictureBytes
    from shortlist.data.pictures import PictureArray, PictureFiles, Pictures
    from shortlist.data.problems import Problem, check_tolerance, problem_lines, summarise_problems
    from shortlist.data.readers.arff import read_arff, read_mulan
    from shortlist.data.readers.cifar import cifar60_40, read_cifar10, read_cifar100
    from shortlist.data.readers.class_folders import read_class_folders
    from shortlist.data.readers.coco import read_coco
    from shortlist.data.readers.feature_table import read_feature_table
    from shortlist.data.readers.flora import flora_dataset
    from shortlist.data.readers.imagenet import read_imagenet, read_imagenet_lt
    from shortlist.data.readers.inaturalist import read_inaturalist
    from shortlist.data.readers.new_table import read_new_table
    from shortlist.data.readers.omniglot import read_omniglot
    from shortlist.data.readers.picture_table import read_picture_table
    from shortlist.data.readers.plantnet import read_plantnet
    from shortlist.data.readers.tiny_imagenet import read_tiny_imagenet
    from shortlist.data.readers.voc import read_voc
    from shortlist.data.sources import open_dataset
    from shortlist.data.splits import ceil_split, grouped_split, stratified_split
    from shortlist.data.statistics import LongTail
    from shortlist.data.transforms import (
        CenterCrop,
        Normalize,
        RandomCrop,
        RandomFlip,
        RandomResizedCrop,
        Resize,
        Transform,
        center_crop,
        normalize,
        random_boxes,
        random_crop,
        random_flip,
        random_resized_crop,
        resize,
        resized_crop,
    )
    from shortlist.data.unlabelled import find_pictures, read_new_rows

# The file that holds each name, loaded when it is first used: the garden needs no image library, the readers do.
HOMES = {
    "Built": "building",
    "CenterCrop": "transforms",
    "Dataset": "dataset",
    "Flora": "flora.garden",
    "Inspection": "inspection",
    "Limits": "flora.limits",
    "Loaded": "loading",
    "LongTail": "statistics",
    "NearDuplicates": "duplicates",
    "NewRows": "new_rows",
    "Normalize": "transforms",
    "PictureArray": "pictures",
    "PictureBytes": "picture_bytes",
    "PictureError": "decoding",
    "PictureFiles": "pictures",
    "Pictures": "pictures",
    "Problem": "problems",
    "RandomCrop": "transforms",
    "RandomFlip": "transforms",
    "RandomResizedCrop": "transforms",
    "Resize": "transforms",
    "Split": "dataset",
    "Transform": "transforms",
    "best_accuracies": "flora.limits",
    "build_benchmark": "building",
    "ceil_split": "splits",
    "center_crop": "transforms",
    "check_tolerance": "problems",
    "choose_classes": "building",
    "cifar60_40": "readers.cifar",
    "divide": "building",
    "download_cifar10": "downloads",
    "download_cifar100": "downloads",
    "download_omniglot": "downloads",
    "fetch": "downloads",
    "find_pictures": "unlabelled",
    "fingerprints": "duplicates",
    "flora_dataset": "readers.flora",
    "grouped_split": "splits",
    "inspect_pictures": "inspection",
    "load_pictures": "loading",
    "near_duplicates": "duplicates",
    "noisy_posterior": "label_noise",
    "normalize": "transforms",
    "open_dataset": "sources",
    "picture_batches": "loading",
    "pooled": "building",
    "problem_lines": "problems",
    "random_boxes": "transforms",
    "random_crop": "transforms",
    "random_flip": "transforms",
    "random_resized_crop": "transforms",
    "read_arff": "readers.arff",
    "read_cifar10": "readers.cifar",
    "read_cifar100": "readers.cifar",
    "read_class_folders": "readers.class_folders",
    "read_coco": "readers.coco",
    "read_feature_table": "readers.feature_table",
    "read_imagenet": "readers.imagenet",
    "read_imagenet_lt": "readers.imagenet",
    "read_inaturalist": "readers.inaturalist",
    "read_mulan": "readers.arff",
    "read_new_rows": "unlabelled",
    "read_new_table": "readers.new_table",
    "read_omniglot": "readers.omniglot",
    "read_picture": "decoding",
    "read_picture_table": "readers.picture_table",
    "read_plantnet": "readers.plantnet",
    "read_tiny_imagenet": "readers.tiny_imagenet",
    "read_voc": "readers.voc",
    "resize": "transforms",
    "resized_crop": "transforms",
    "straddling": "duplicates",
    "stratified_split": "splits",
    "summarise_problems": "problems",
    "superclass_noise": "label_noise",
    "unlabel": "open_set",
    "unpack": "downloads",
    "warn_duplicates": "inspection",
    "warn_straddling": "duplicates",
    "write_benchmark": "manifest",
}

__all__ = [
    "Built",
    "CenterCrop",
    "Dataset",
    "Flora",
    "Inspection",
    "Limits",
    "Loaded",
    "LongTail",
    "NearDuplicates",
    "NewRows",
    "Normalize",
    "PictureArray",
    "PictureBytes",
    "PictureError",
    "PictureFiles",
    "Pictures",
    "Problem",
    "RandomCrop",
    "RandomFlip",
    "RandomResizedCrop",
    "Resize",
    "Split",
    "Transform",
    "best_accuracies",
    "build_benchmark",
    "ceil_split",
    "center_crop",
    "check_tolerance",
    "choose_classes",
    "cifar60_40",
    "divide",
    "download_cifar10",
    "download_cifar100",
    "download_omniglot",
    "fetch",
    "find_pictures",
    "fingerprints",
    "flora_dataset",
    "grouped_split",
    "inspect_pictures",
    "load_pictures",
    "near_duplicates",
    "noisy_posterior",
    "normalize",
    "open_dataset",
    "picture_batches",
    "pooled",
    "problem_lines",
    "random_boxes",
    "random_crop",
    "random_flip",
    "random_resized_crop",
    "read_arff",
    "read_cifar10",
    "read_cifar100",
    "read_class_folders",
    "read_coco",
    "read_feature_table",
    "read_imagenet",
    "read_imagenet_lt",
    "read_inaturalist",
    "read_mulan",
    "read_new_rows",
    "read_new_table",
    "read_omniglot",
    "read_picture",
    "read_picture_table",
    "read_plantnet",
    "read_tiny_imagenet",
    "read_voc",
    "resize",
    "resized_crop",
    "straddling",
    "stratified_split",
    "summarise_problems",
    "superclass_noise",
    "unlabel",
    "unpack",
    "warn_duplicates",
    "warn_straddling",
    "write_benchmark",
]

__getattr__ = loaded_on_use(__name__, HOMES)
