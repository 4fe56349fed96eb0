from .adapters import as_dataset as as_dataset, as_split as as_split
from .archives import ArchiveLimits as ArchiveLimits, unpack as unpack
from .building import (
    Built as Built,
    build_benchmark as build_benchmark,
    choose_classes as choose_classes,
    divide as divide,
    pooled as pooled,
)
from .class_lists import target_among as target_among
from .dataset import Dataset as Dataset, Split as Split
from .decoding import PictureError as PictureError, read_picture as read_picture
from .downloads import (
    download_cifar10 as download_cifar10,
    download_cifar100 as download_cifar100,
    download_omniglot as download_omniglot,
    fetch as fetch,
)
from .duplicates import (
    NearDuplicates as NearDuplicates,
    fingerprints as fingerprints,
    near_duplicates as near_duplicates,
    straddling as straddling,
    warn_straddling as warn_straddling,
)
from .flora.garden import Flora as Flora
from .flora.limits import Limits as Limits, best_accuracies as best_accuracies
from .focus import sharpness as sharpness
from .inspection import Inspection as Inspection, inspect_pictures as inspect_pictures, warn_duplicates as warn_duplicates
from .label_noise import noisy_posterior as noisy_posterior, superclass_noise as superclass_noise
from .loading import Loaded as Loaded, load_pictures as load_pictures, picture_batches as picture_batches
from .long_tail import long_tail_counts as long_tail_counts, long_tailed as long_tailed
from .manifest import write_benchmark as write_benchmark
from .open_set import unlabel as unlabel
from .picture_bytes import PictureBytes as PictureBytes
from .pictures import (
    PictureArray as PictureArray,
    PictureBoxes as PictureBoxes,
    PictureFiles as PictureFiles,
    Pictures as Pictures,
)
from .problems import (
    Problem as Problem,
    check_tolerance as check_tolerance,
    problem_lines as problem_lines,
    summarise_problems as summarise_problems,
)
from .protocols import val_as_test as val_as_test
from .readers.arff import read_arff as read_arff, read_mulan as read_mulan
from .readers.cifar import cifar60_40 as cifar60_40, read_cifar10 as read_cifar10, read_cifar100 as read_cifar100
from .readers.class_folders import read_class_folders as read_class_folders
from .readers.coco import read_coco as read_coco
from .readers.feature_table import read_feature_table as read_feature_table
from .readers.flora import flora_dataset as flora_dataset
from .readers.imagenet import read_imagenet as read_imagenet, read_imagenet_lt as read_imagenet_lt
from .readers.inaturalist import read_inaturalist as read_inaturalist
from .readers.omniglot import read_omniglot as read_omniglot
from .readers.picture_files import read_picture_files as read_picture_files
from .readers.picture_table import read_picture_table as read_picture_table
from .readers.plantnet import read_plantnet as read_plantnet
from .readers.tiny_imagenet import read_tiny_imagenet as read_tiny_imagenet
from .readers.vispr import read_vispr as read_vispr
from .readers.voc import read_voc as read_voc
from .readers.wider_attribute import read_wider_attribute as read_wider_attribute
from .sources import open_dataset as open_dataset, register_source as register_source
from .splits import ceil_split as ceil_split, grouped_split as grouped_split, stratified_split as stratified_split
from .statistics import LongTail as LongTail
from .transforms import (
    CenterCrop as CenterCrop,
    Normalize as Normalize,
    RandomCrop as RandomCrop,
    RandomFlip as RandomFlip,
    RandomResizedCrop as RandomResizedCrop,
    Resize as Resize,
    Transform as Transform,
    center_crop as center_crop,
    normalize as normalize,
    random_boxes as random_boxes,
    random_crop as random_crop,
    random_flip as random_flip,
    random_resized_crop as random_resized_crop,
    resize as resize,
    resized_crop as resized_crop,
)
from .verification import verify_benchmark as verify_benchmark
