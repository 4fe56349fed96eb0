"""Recipes: each can be made, says what the paper says, and names only things that exist."""

import dataclasses
import json
import pickle
import subprocess
import sys

import pytest

from shortlist.data.protocols import protocol_options
from shortlist.data.sources import SOURCES, path_and_options, reader_options
from shortlist.errors import InputError
from shortlist.methods import all_methods
from shortlist.models.backbones import backbone_inputs
from shortlist.recipes import all_recipes, find_recipe
from shortlist.recipes.cifar100 import cifar100_top5
from shortlist.recipes.grids import checked_grid, trial_recipes
from shortlist.recipes.imagenet_lt import imagenet_lt_top_k
from shortlist.recipes.plantnet import plantnet_average_k, plantnet_top_k
from shortlist.recipes.tables import mulan
from shortlist.sets import parse_rule
from shortlist.training import Recipe, train
from tests.data.readers.arff_texts import write, xml
from tests.recipes.published import TRAINING

RECIPES = all_recipes()
NAMES = [recipe.name for recipe in RECIPES]
METHODS = {method.name for method in all_methods()}
OWN = ("pictures", "table")  # for data that a person brings


def each(recipes=RECIPES):
    return pytest.mark.parametrize("recipe", recipes, ids=[recipe.name for recipe in recipes])


def test_names_are_distinct():
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("name", TRAINING)
def test_training_is_the_papers(name):
    recipe = find_recipe(name)
    found = (recipe.epochs, recipe.batch_size, recipe.lr, recipe.milestones, recipe.weight_decay, recipe.backbone)
    assert found == TRAINING[name]
    assert (recipe.optimizer, recipe.momentum, recipe.schedule, recipe.decay) == ("sgd", 0.9, "step", 0.1)
    assert recipe.pretrained == name.startswith("plantnet")


def test_parameters_are_the_papers():
    chosen = {recipe.name: dict(recipe.parameters) for recipe in RECIPES}
    assert {name: chosen["cifar100-top5"][name] for name in ("k", "epsilon", "samples")} == {
        "k": 5,
        "epsilon": 0.2,
        "samples": 10,
    }
    assert chosen["cifar100-average5"] == {"k": 5, "alpha": 0.3}
    assert chosen["plantnet-average10"] == {"k": 10, "alpha": 5.0}
    assert chosen["plantnet-top3"] == {"k": 3, "epsilon": 0.01, "samples": 5, "max_margin": 0.2, "scale": 60.0}
    assert chosen["imagenet-lt-top1"] == {"k": 1, "epsilon": 0.1, "samples": 5, "max_margin": 0.4, "scale": 50.0}
    spa = {"zeta_pos": 1, "k_pos": 1, "b_pos": 0, "zeta_neg": 5, "k_neg": 3, "b_neg": 1}
    assert chosen["coco-spa"] == spa
    assert find_recipe("coco-spa").batch_size == 256
    assert find_recipe("coco-quasibinary").epochs == 20


@each()
def test_a_record_comes_back_from_json(recipe):
    back = Recipe.from_record(json.loads(json.dumps(recipe.record())))
    assert back == recipe
    assert hash(back) == hash(recipe)
    assert pickle.loads(pickle.dumps(recipe)) == recipe


@each()
def test_nothing_can_be_changed_in_place(recipe):
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.lr = 1.0
    for part in (recipe.parameters, recipe.grid):
        with pytest.raises(TypeError):
            part["lr"] = 1.0


@each()
def test_words_for_a_list(recipe):
    assert recipe.summary
    assert "\n" not in recipe.summary
    assert len(recipe.summary) <= 120
    assert bool(recipe.reference) == (recipe.name not in OWN and not recipe.name.startswith("flora"))


@each()
def test_the_grid_can_be_searched_and_holds_the_recipe_itself(recipe):
    grid = checked_grid(recipe.grid, recipe)
    assert grid == dict(recipe.grid)
    for name, values in grid.items():
        assert recipe.settings()[name] in values
    assert recipe.settings() in [trial.settings() for trial in trial_recipes(recipe, grid)]


@each()
def test_methods_backbones_and_rules_exist(recipe):
    assert recipe.method in METHODS
    assert backbone_inputs(recipe.backbone) == ("tables" if recipe.name.startswith(("mulan", "table")) else "pictures")
    if recipe.rule is not None:
        assert parse_rule(recipe.rule).text == recipe.rule
        assert recipe.rule.partition(":")[2] == f"{recipe.k_for(1000):g}"


@each([recipe for recipe in RECIPES if recipe.name not in OWN])
def test_sources_and_their_options_exist(recipe):
    name, _, rest = recipe.data.partition(":")
    source = SOURCES[name]
    path, options = path_and_options(rest if source.takes_path else f",{rest}")
    assert path == ("{path}" if source.takes_path else "")
    assert set(options) <= {*reader_options(source), *protocol_options()}


@each()
def test_large_pictures_are_tested_as_they_are_trained_on(recipe):
    """Networks that read 224 pixels, and the user's pictures, are tested on the middle of a square larger by 8/7."""
    assert recipe.test_fit == ("center" if recipe.size == 224 or recipe.name == "pictures" else "crop")


@each([recipe for recipe in RECIPES if "{path}" in recipe.data])
def test_data_that_a_person_has_to_give(recipe, tmp_path):
    with pytest.raises(InputError, match=rf"data: recipe {recipe.name} needs a path"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert recipe.with_path("photos").data == recipe.data.replace("{path}", "photos")


def test_flora_needs_nothing():
    assert [recipe.name for recipe in RECIPES if "{path}" not in recipe.data] == [
        "flora-seconds",
        "flora-minutes",
        "flora-quadrats",
        "flora-open-set",
    ]


def test_the_demo_sees_every_picture_once():
    recipe = find_recipe("flora-minutes")
    assert recipe.data == "flora:train=340000,val=8000,test=20000"
    assert recipe.epochs * recipe.epoch_rows == 340_000


def test_label_noise_is_a_setting():
    assert cifar100_top5(0.3) == find_recipe("cifar100-top5").with_settings(label_noise="0.3")


@pytest.mark.parametrize(
    ("make", "k", "sizes"),
    [(plantnet_top_k, 2, "1, 3, 5, 10"), (plantnet_average_k, 4, "2, 3, 5, 10"), (imagenet_lt_top_k, 10, "1, 3 or 5")],
)
def test_sizes_without_published_numbers(make, k, sizes):
    with pytest.raises(InputError, match=rf"k: expected (one of )?{sizes}, whose numbers are published, got {k}"):
        make(k)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("flora-minute", "flora-minutes"), ("CIFAR100_top5", "cifar100-top5"), ("plantnet-averag3", "plantnet-average3")],
)
def test_a_name_that_is_nearly_right(name, meant):
    with pytest.raises(
        InputError, match=rf"^recipe: did you mean '{meant}'\? expected one of .* and \d+ more .*; got '{name}'$"
    ):
        find_recipe(name)


def test_a_name_like_no_other():
    with pytest.raises(InputError, match=r"^recipe: expected one of .*flora-seconds, .*; got 'zzz'$"):
        find_recipe("zzz")


def test_listing_recipes_loads_nothing_heavy():
    heavy = ("accelerate", "matplotlib", "onnx", "timm", "torchvision", "PIL", "pandas")
    code = f"""
import sys
from shortlist.recipes import all_recipes
all_recipes()
print([name for name in {heavy!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_table_of_mulan_trains(tmp_path):
    header = "@relation leaves\n@attribute width numeric\n@attribute length numeric\n" + "".join(
        f"@attribute {name} {{0,1}}\n" for name in ("oak", "elm", "ash")
    )
    rows = [f"{n % 7},{n % 5},{int(n % 7 > 3)},{int(n % 5 > 2)},{int(n % 2)}" for n in range(80)]
    (tmp_path / "data").mkdir()
    write(tmp_path / "data", f"{header}@data\n" + "\n".join(rows[:60]) + "\n", "leaves-train.arff")
    write(tmp_path / "data", f"{header}@data\n" + "\n".join(rows[60:]) + "\n", "leaves-test.arff")
    write(tmp_path / "data", xml("oak", "elm", "ash"), "leaves.xml")
    recipe = (
        mulan("leaves").with_path(str(tmp_path / "data")).with_settings(epochs=30, backbone="mlp-16", lr=0.01, batch_size=16)
    )
    trained = train(recipe, tmp_path / "run", device="cpu")
    assert trained.predictions["test"].scores.shape == (20, 3)
    assert trained.history[-1]["monitor"] == "map"
    assert trained.history[-1]["loss"] < trained.history[0]["loss"]
