"""All recipes, by name."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from shortlist.errors import InputError
from shortlist.recipes.baselines import FAMILIES, plantnet_cross_entropy
from shortlist.recipes.cifar100 import cifar100_average5, cifar100_resnet9, cifar100_resnet18, cifar100_top5
from shortlist.recipes.flora import flora_minutes, flora_open_set, flora_quadrats, flora_seconds
from shortlist.recipes.imagenet import imagenet_top_k
from shortlist.recipes.imagenet_lt import imagenet_lt_top_k
from shortlist.recipes.multilabel import CHENG_DATA, calibrated_multilabel, coco_quasibinary, nus_wide_quasibinary
from shortlist.recipes.one_against_rest import DATA, one_against_rest
from shortlist.recipes.open_set import cifar60_40
from shortlist.recipes.own import own_pictures, own_table
from shortlist.recipes.plantnet import plantnet_average_k, plantnet_top_k
from shortlist.recipes.tables import mulan_scene, mulan_yeast
from shortlist.training.recipe import Recipe
from shortlist.words import expected_one_of, shown


@cache
def _by_name() -> Mapping[str, Recipe]:
    """All recipes, built on first use."""
    recipes = (
        own_pictures(),
        own_table(),
        flora_seconds(),
        flora_minutes(),
        flora_quadrats(),
        flora_open_set(),
        cifar100_top5(),
        cifar100_average5(),
        cifar100_resnet18(),
        cifar100_resnet9(),
        cifar60_40(),
        *map(one_against_rest, DATA),
        *(plantnet_top_k(k) for k in (1, 3, 5, 10)),
        *(plantnet_average_k(k) for k in (2, 3, 5, 10)),
        *map(plantnet_cross_entropy, FAMILIES),
        *(imagenet_top_k(k) for k in (1, 5)),
        *(imagenet_lt_top_k(k) for k in (1, 3, 5)),
        *(calibrated_multilabel(name, method) for name in CHENG_DATA for method in ("spa", "spa-label-pair")),
        coco_quasibinary(),
        nus_wide_quasibinary(),
        mulan_scene(),
        mulan_yeast(),
    )
    return MappingProxyType({recipe.name: recipe for recipe in recipes})


def all_recipes() -> tuple[Recipe, ...]:
    """All recipes.

    >>> [recipe.name for recipe in all_recipes() if recipe.data.startswith("flora")]
    ['flora-seconds', 'flora-minutes', 'flora-quadrats', 'flora-open-set']
    """
    return tuple(_by_name().values())


def find_recipe(name: str) -> Recipe:
    """The recipe with this name.

    >>> find_recipe("flora-minutes").rule
    'average-k:5'
    >>> find_recipe("flora-minute")
    Traceback (most recent call last):
    shortlist.errors.InputError: recipe: did you mean 'flora-minutes'? expected one of pictures, table, ...
    """
    known = _by_name()
    if name not in known:
        raise InputError(f"recipe: {expected_one_of(name, known, 'shortlist recipes')}; got {shown(name)}")
    return known[name]
