"""A classifier as a folder: what comes back, what is refused, what is left alone."""

import json
import os
import random
import stat
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version

import pytest
import torch
from safetensors.torch import load_file, save_file

import shortlist
from shortlist import files
from shortlist.errors import InputError
from shortlist.links import SPA, Identity, Isotonic, Platt, Quasibinary, Sigmoid, Softmax
from shortlist.models import artefact
from shortlist.models.artefact import is_classifier, load_rule
from shortlist.models.card import model_card
from shortlist.models.classifier import Classifier
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.sets import SizeSummary, top_k
from tests.links.test_link_battery import FORMS, ready
from tests.models.classifiers import NAMES, fitted, labels, of_features, of_pictures, pictures, rows

ODD_NAMES = ["Quercus robur L.", "a|b*c_[x](y)", "<script>&amp;", "caf\udce9\nélan 🌿"]
RULES = [
    "top-k:2",
    "average-k:1.5",
    "average-k:1.5:prior",
    "mass:0.1",
    "lac:0.2,classwise,cap:2",
    "raps:0.2,floor:1",
    "pas:0.2",
]


@pytest.fixture
def saved(tmp_path):
    """A folder with a classifier of features whose link and rule are fitted."""
    classifier = fitted(of_features(link=Platt().fit(rows(60, 4), labels(60))), "average-k:2")
    classifier.save(tmp_path / "model")
    return tmp_path / "model"


def change_config(folder, **changes):
    """As a person does who has removed the digests."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    config.pop("digests", None)
    path.write_text(json.dumps(config))


def change_tensors(folder, change):
    change_config(folder)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


# What comes back


@pytest.mark.parametrize("head", ["linear", "cosine", "two-head"])
@pytest.mark.parametrize("backbone", ["plain-4-8", "resnet-8"])
def test_networks_come_back(backbone, head, tmp_path):
    classifier = of_pictures(backbone, head, rule=top_k(2))
    for module in classifier.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(generator=torch.Generator().manual_seed(0))
    classifier.save(tmp_path / "x")
    found = Classifier.load(tmp_path / "x")
    assert torch.equal(found.predict(pictures()).scores, classifier.predict(pictures()).scores)
    assert not found.training
    assert (found.network.backbone_name, found.network.head_kind) == (backbone, head)
    assert found.inputs == classifier.inputs


@pytest.mark.parametrize("name", FORMS)
def test_links_come_back(name, tmp_path):
    link = ready(name)
    of_features(link=link).save(tmp_path / "x")
    found = Classifier.load(tmp_path / "x")
    assert found.link.fingerprint() == link.fingerprint()
    scores = torch.rand(9, 4)
    assert torch.equal(found.link.probs(scores), link.probs(scores))


@pytest.mark.filterwarnings("ignore:.*many tie at the threshold")
@pytest.mark.parametrize("text", RULES)
def test_rules_come_back(text, tmp_path):
    classifier = fitted(of_features(train_counts=[5, 3, 2, 1]), text)
    classifier.rule.notes = ("a note",)
    classifier.rule.calibrated = SizeSummary(10, 1.5, 0.25)
    classifier.save(tmp_path / "x")
    found = Classifier.load(tmp_path / "x")
    for name in ("text", "notes", "calibrated", "origin", "least", "most", "guarantee"):
        assert getattr(found.rule, name) == getattr(classifier.rule, name)
    assert torch.equal(found.rule.threshold, classifier.rule.threshold)
    assert found.rule.threshold.dtype == torch.float64
    given = rows(200, seed=3)
    assert torch.equal(found.predict(given).sets, classifier.predict(given).sets)


def test_everything_else_comes_back(tmp_path):
    about = {"data": {"name": "flora"}, "numbers": [{"name": "top-1", "value": 0.5, "n": 10}], "other": [1, None, "x"]}
    classifier = Classifier(of_features().network, ODD_NAMES, train_counts=[1, 2, 3, 0], about=about, single_label=False)
    classifier.save(tmp_path / "x")
    found = Classifier.load(tmp_path / "x")
    assert found.classes == tuple(ODD_NAMES)
    assert found.about == about
    assert found.single_label is False
    assert found.link is None
    assert found.rule is None
    assert found.train_counts.tolist() == [1, 2, 3, 0]
    assert not found.train_counts.is_floating_point()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_digest_of_a_network_is_that_of_its_weights(tmp_path, dtype):
    classifier = of_pictures("resnet-8").to(dtype)
    digest = classifier.network.digest()
    classifier.save(tmp_path / "x")
    found = Classifier.load(tmp_path / "x")
    assert found.network.digest() == digest
    assert found.predictions(pictures()).network_digest == digest
    with torch.no_grad():
        found.network.state_dict()["head.weight"][0, 0] += 0.01
    assert found.network.digest() != digest


PREPARATIONS = {
    "fit": {"fit": "center"},
    "size": {"size": 16},
    "mean": {"mean": (0.5, 0.4, 0.31)},
    "std": {"std": (0.2, 0.25, 0.30000001)},
    "mirror": {"mirror": True},
}


@pytest.mark.parametrize("name", PREPARATIONS)
def test_networks_that_prepare_pictures_in_other_ways_have_other_digests(tmp_path, name):
    classifier, other = of_pictures("resnet-8"), of_pictures("resnet-8")
    assert classifier.network.digest() == other.network.digest()
    other.inputs = other.network.inputs = replace(other.network.inputs, **PREPARATIONS[name])
    assert classifier.network.digest() != other.network.digest()
    other.save(tmp_path / "x")
    assert Classifier.load(tmp_path / "x").network.digest() == other.network.digest()
    theirs = other.predictions(pictures(60, other.inputs.size), labels(60))
    other_by = "network" if name == "mirror" else "preparation of inputs"  # mirror images count in both halves
    with pytest.raises(InputError, match=f"predictions: .*another {other_by}"):
        classifier.fit_rule("average-k:2", theirs)


def test_raw_inputs_and_features_of_other_names_are_other_inputs():
    assert InputSpec.pictures(8, raw=True).digest() != InputSpec.pictures(8).digest()
    digests = {InputSpec.features(2, feature_names=names).digest() for names in ((), ("a", "b"), ("b", "a"))}
    assert len(digests) == 3
    assert InputSpec.features(2, feature_names=("0", "1")).digest() == InputSpec.features(2).digest()


def test_scores_and_rules_of_earlier_versions_go_with_the_same_weights(tmp_path):
    """Their digests are of the weights alone."""
    classifier = of_pictures("resnet-8")
    digest = classifier.network.digest()
    found = classifier.predictions(pictures(60), labels(60))
    old = replace(found, network_digest=digest.partition("-")[0])
    fitted = classifier.fit_rule("lac:0.2", old)
    assert fitted.rule.threshold == classifier.fit_rule("lac:0.2", found).rule.threshold
    fitted.save(tmp_path / "x")
    assert Classifier.load(tmp_path / "x").rule.origin["network"] == digest.partition("-")[0]
    with pytest.raises(InputError, match="predictions: .*another network"):
        classifier.fit_rule("lac:0.2", replace(found, network_digest="0" * 16))


def test_half_precision_is_saved_in_float32(tmp_path):
    of_features().half().save(tmp_path / "x")
    assert load_file(tmp_path / "x" / "model.safetensors")["network.head.weight"].dtype == torch.float32


def test_folder_holds_what_it_says(saved):
    assert sorted(entry.name for entry in saved.iterdir()) == ["README.md", "classes.json", "config.json", "model.safetensors"]
    assert json.loads((saved / "classes.json").read_text()) == NAMES
    config = json.loads((saved / "config.json").read_text())
    assert config["format"] == "shortlist-classifier/1"
    assert config["versions"] == {"shortlist": shortlist.__version__, "torch": version("torch")}
    tensors = load_file(saved / "model.safetensors")
    assert {"network.head.weight", "link.slope", "rule.threshold"} <= set(tensors)
    assert len({stat.S_IMODE(entry.stat().st_mode) for entry in saved.iterdir()}) == 1


def test_loading_draws_no_random_numbers(saved):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Classifier.load(saved)
    assert torch.equal(torch.rand(3), expected)


# Where it is written


def test_a_classifier_is_replaced(saved):
    other = of_pictures(rule=top_k(1))
    other.save(saved)
    assert Classifier.load(saved).network.backbone_name == "plain-4-8"
    assert [entry.name for entry in saved.parent.iterdir()] == ["model"]


def test_nothing_but_a_classifier_is_replaced(saved, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text('{"format": "other/1"}')
    with pytest.raises(InputError, match="expected a new or empty folder or one that holds a classifier, got other files"):
        of_features().save(tmp_path / "mine")
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"it holds notes.txt beside it: move that away"):
        of_features().save(saved)
    assert (saved / "notes.txt").read_text() == "mine"
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="expected a folder, got a file"):
        of_features().save(tmp_path / "file")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "mine", "model"]


@pytest.mark.parametrize("name", ["README.md", "README.old.md"])
def test_a_folder_of_the_name_of_a_card_is_not_part_of_a_classifier(saved, name):
    (saved / "README.md").unlink()
    (saved / name).mkdir()
    (saved / name / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=f"it holds the folder {name} beside it: move that away"):
        of_features().save(saved)
    assert (saved / name / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("there", [False, True])
def test_one_process_at_a_time_saves_to_a_folder(there, tmp_path, monkeypatch):
    path, write, refused = tmp_path / "models" / "x", artefact._write, []
    if there:
        of_features().save(path)

    def write_while_another_comes(*given):
        monkeypatch.setattr(artefact, "_write", write)
        with pytest.raises(InputError, match=f"{path} is being written to by another process"):
            of_features().save(path)
        refused.append(True)
        write(*given)

    monkeypatch.setattr(artefact, "PATIENCE", 0, raising=False)
    monkeypatch.setattr(artefact, "_write", write_while_another_comes)
    of_pictures().save(path)
    assert refused
    assert Classifier.load(path).inputs.is_pictures
    assert [entry.name for entry in path.parent.iterdir()] == ["x"]


def test_an_empty_folder_and_folders_above_will_do(tmp_path):
    (tmp_path / "empty").mkdir()
    of_features().save(tmp_path / "empty")
    of_features().save(tmp_path / "new" / "deep")
    assert is_classifier(tmp_path / "empty")
    assert is_classifier(tmp_path / "new" / "deep")
    assert not is_classifier(tmp_path)


@pytest.mark.parametrize("replace", [False, True])
def test_what_fails_on_the_way_leaves_everything_as_it_was(replace, tmp_path, monkeypatch):
    classifier = of_features()
    if replace:
        classifier.save(tmp_path / "x")

    def fail(*args, **kwargs):
        raise OSError("the disk is full")

    monkeypatch.setattr("shortlist.models.artefact.save_file", fail)
    with pytest.raises(OSError, match="full"):
        of_pictures().save(tmp_path / "x")
    assert [entry.name for entry in tmp_path.iterdir()] == (["x"] if replace else [])
    if replace:
        assert Classifier.load(tmp_path / "x").network.backbone_name == "mlp-8"


def test_a_swap_that_fails_brings_the_old_one_back(saved, monkeypatch):
    rename, calls = type(saved).rename, []

    def fail_at_the_second(self, target):
        calls.append(self)  # the first puts the written folder beside the old one, the second is the swap
        if len(calls) == 2:
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(type(saved), "rename", fail_at_the_second)
    with pytest.raises(OSError, match="no"):
        of_pictures().save(saved)
    monkeypatch.undo()
    assert Classifier.load(saved).network.backbone_name == "mlp-8"
    assert [entry.name for entry in saved.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
def test_a_swap_that_is_broken_off_brings_the_old_one_back_where_it_can(saved, monkeypatch, failure):
    def fail(new, path):
        raise failure("no")

    real = type(saved).rename
    monkeypatch.setattr(
        type(saved), "rename", lambda self, to: fail(self, to) if to == saved and ".partial" in str(self) else real(self, to)
    )
    with pytest.raises(failure, match="no"):
        of_pictures().save(saved)
    monkeypatch.undo()
    assert Classifier.load(saved).network.backbone_name == "mlp-8"
    assert [entry.name for entry in saved.parent.iterdir()] == ["model"]


def test_a_classifier_that_was_left_aside_is_found(saved):
    aside = saved.rename(saved.parent / ".model.old.abc")  # as after a crash between the two renames
    (saved.parent / ".model.old.def").mkdir()  # as after one before them
    with pytest.raises(InputError) as caught:
        Classifier.load(saved)
    assert str(caught.value) == (
        f"{saved}: there is no such folder: it was being replaced, and the one before is {aside}: rename that to model"
    )
    aside.rename(saved)
    assert Classifier.load(saved).network.backbone_name == "mlp-8"


def test_a_classifier_that_is_being_replaced_is_read_a_moment_later(saved, monkeypatch):
    aside, waited = saved.rename(saved.parent / ".model.old.abc"), []  # as between the two renames

    def sleep(seconds):
        waited.append(seconds)
        aside.rename(saved)

    monkeypatch.setattr("shortlist.models.replaced.time.sleep", sleep)
    assert Classifier.load(saved).network.backbone_name == "mlp-8"
    assert len(waited) == 1


def test_an_unfitted_link_is_not_saved(tmp_path):
    with pytest.raises(InputError, match="has not been fitted"):
        of_features(link=Quasibinary()).save(tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_weights_that_are_no_numbers_are_not_saved(tmp_path):
    classifier = of_features()
    with torch.no_grad():
        classifier.network.head.weight[0, 0] = torch.nan
    with pytest.raises(InputError, match=r"cannot save the classifier: .*got nan"):
        classifier.save(tmp_path / "x")


# Damage


@pytest.mark.parametrize("name", ["config.json", "classes.json", "model.safetensors"])
def test_missing_files_are_named(name, saved):
    (saved / name).unlink()
    with pytest.raises(InputError, match=rf"with config.json, classes.json and model.safetensors; {name} is missing"):
        Classifier.load(saved)


def test_a_missing_card_is_no_harm(saved):
    (saved / "README.md").unlink()
    assert Classifier.load(saved).classes == tuple(NAMES)


def test_no_folder_at_all(tmp_path):
    with pytest.raises(InputError, match="gone: there is no such folder"):
        Classifier.load(tmp_path / "gone")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="got a file"):
        Classifier.load(tmp_path / "file")


@pytest.mark.parametrize("name", ["config.json", "classes.json"])
@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe", b"[" * 100_000])
def test_what_is_not_json_is_refused(name, content, saved):
    (saved / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}: expected JSON"):
        Classifier.load(saved)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "shortlist-classifier/2"}, r"expected the format shortlist-classifier/1, got shortlist-classifier/2"),
        ({"format": "else"}, "it was not written by Classifier.save"),
        ({"classes": 5}, "classes.json: expected 5 names, as config.json says, got 4"),
        ({"backbone": "mlp-9"}, r"expected network.backbone\S+ as float32 \(9, 3\), got float32 \(8, 3\)"),
        ({"backbone": "mpl-8"}, "mpl-8"),
        ({"head": "round"}, "head: expected one of linear, cosine, two-head; got 'round'"),
        ({"head": "two-head"}, r"expected network.head.labels.weight, float32 \(4, 8\), which is missing"),
        ({"inputs": {"kind": "features"}}, "inputs: expected kind, size, mean, std"),
        ({"inputs": 3}, "inputs: expected kind"),
        ({"link": {"kind": "softmaxx"}}, r"link: did you mean 'softmax'\? expected one of .*got 'softmaxx'"),
        ({"link": "softmax"}, "config.json: the file is damaged|link"),
        ({"link": {"kind": "softmax"}}, "link softmax: expected no tensors but its own, got intercept, slope"),
        ({"rule": {"text": "average-k:2"}}, "rule: the record is damaged, 'ordering' is missing"),
        ({"rule": 3}, "rule: expected a record, got 3"),
        ({"train_counts": [1]}, "train_counts: expected one number for each of 4 classes"),
        ({"train_counts": "many"}, "config.json: the file is damaged"),
        ({"tensors": [["network"]]}, r"expected the tensors that config.json lists; \['network'\] is missing"),
    ],
)
def test_other_configurations_are_refused(changes, message, saved):
    change_config(saved, **changes)
    with pytest.raises(InputError, match=message) as caught:
        Classifier.load(saved)
    assert str(saved) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_configuration_that_is_cut_short_is_refused(saved):
    path = saved / "config.json"
    path.write_text(json.dumps({"format": "shortlist-classifier/1"}))
    with pytest.raises(InputError, match="'backbone' is missing"):
        Classifier.load(saved)
    path.write_text("[]")
    with pytest.raises(InputError, match="not written by"):
        Classifier.load(saved)


@pytest.mark.parametrize("names", [{"a": 1}, [1, 2, 3, 4], "abcd"])
def test_class_names_that_are_no_names_are_refused(names, saved):
    change_config(saved)
    (saved / "classes.json").write_text(json.dumps(names))
    with pytest.raises(InputError, match=r"classes.json: expected a list of names"):
        Classifier.load(saved)


def test_class_names_that_are_given_twice_are_refused(saved):
    change_config(saved)
    (saved / "classes.json").write_text(json.dumps(["a", "a", "b", "c"]))
    with pytest.raises(InputError, match="'a' more than once"):
        Classifier.load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("network.head.bias"), r"config.json lists; network.head.bias is missing"),
        (lambda t: t.pop("link.slope"), r"config.json lists; link.slope is missing"),
        (lambda t: t.pop("rule.threshold"), r"config.json lists; rule.threshold is missing"),
        (lambda t: t.update({"network.more": torch.zeros(1)}), r"expected the tensors of the network only, got network.more"),
        (lambda t: t.update({"else": torch.zeros(1)}), r"expected tensors of network, link and rule, got else"),
        (
            lambda t: t.update({"rule.else": torch.zeros(1)}),
            r"rule average-k:2: expected the tensors threshold, got else, threshold",
        ),
        (lambda t: t["network.head.bias"].fill_(torch.nan), r"expected finite numbers in network.head.bias, got nan"),
        (lambda t: t["network.head.bias"].fill_(torch.inf), r"expected finite numbers in network.head.bias, got inf"),
        (lambda t: t["rule.threshold"].fill_(torch.nan), r"expected finite numbers in rule.threshold, got nan"),
        (
            lambda t: t.update({"network.head.bias": torch.zeros(5)}),
            r"expected network.head.bias as float32 \(4,\), got float32 \(5,\)",
        ),
        (lambda t: t.update({"link.slope": torch.zeros(3), "link.intercept": torch.zeros(3)}), r"fitted on 3 classes, got 4"),
        (
            lambda t: t.update({"link.intercept": torch.zeros(3)}),
            r"got slope \(4,\), intercept \(3,\): fit it again",
        ),
        (lambda t: t.update({"rule.threshold": torch.zeros(3)}), r"threshold: expected float64, got float32 \(3,\)"),
    ],
)
def test_other_tensors_are_refused(change, message, saved):
    change_tensors(saved, change)
    with pytest.raises(InputError, match=message) as caught:
        Classifier.load(saved)
    assert str(saved) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "classes.json", "model.safetensors"])
def test_a_bit_that_changes_anywhere_is_noticed_or_harmless(name, saved):
    """Without its digests a classifier loads whose weights, link, rule or class names have changed."""
    inputs, draw = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), random.Random(name)
    before, content = Classifier.load(saved).predict(inputs), (saved / name).read_bytes()
    for _ in range(60):
        place, bit = draw.randrange(len(content)), draw.randrange(8)
        (saved / name).write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
        with suppress(InputError):
            found = Classifier.load(saved).predict(inputs)
            assert found.classes == before.classes
            for part in ("scores", "probabilities", "sets"):
                assert torch.equal(getattr(found, part), getattr(before, part))


def test_what_was_edited_loads_once_its_digests_are_removed(saved):
    path = saved / "config.json"
    path.write_text(path.read_text().replace('"about": {', '"about": {"licence": "CC0"'))
    with pytest.raises(InputError, match=r"config.json: .*edited.*remove 'digests' from config.json to use it as it is"):
        Classifier.load(saved)
    change_config(saved)
    assert Classifier.load(saved).about == {"licence": "CC0"}


@pytest.mark.parametrize(("part", "read"), [("rule.threshold", load_rule), ("network.head.bias", Classifier.load)])
def test_a_number_that_has_changed_is_named_by_its_part(saved, part, read):
    config = (saved / "config.json").read_text()
    change_tensors(saved, lambda tensors: tensors[part].add_(0.01))
    read(saved)  # as from an earlier version
    (saved / "config.json").write_text(config)
    with pytest.raises(
        InputError, match=rf"model.safetensors: the numbers of its {part.partition('.')[0]} are not what was saved"
    ):
        read(saved)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_weights_that_are_cut_short_are_refused(keep, saved):
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"model.safetensors: the file is damaged or cut short"):
        Classifier.load(saved)


def test_a_threshold_that_lets_everything_pass_comes_back(tmp_path):
    classifier = of_features()
    predictions = classifier.predictions(rows(5), labels(5))
    with pytest.warns(UserWarning, match="too few"):
        classifier = classifier.fit_rule("lac:0.1", predictions)
    classifier.save(tmp_path / "x")
    assert Classifier.load(tmp_path / "x").rule.threshold == -torch.inf


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_devices_that_are_not_there_are_refused(device, saved):
    with pytest.raises(InputError, match=f"device: cannot move the classifier to {device}"):
        Classifier.load(saved, device=device)


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "symlink"), reason="needs links between folders")
def test_a_link_to_a_folder_is_followed(saved, tmp_path):
    (tmp_path / "latest").symlink_to(saved)
    of_pictures(rule=top_k(1)).save(tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert Classifier.load(saved).inputs.is_pictures


# The card


def test_card_tells_what_there_is_to_tell():
    about = {
        "name": "Leaves",
        "data": {"name": "flora", "rows": 100},
        "method": "noised top-k",
        "numbers": [
            {"name": "average-5", "value": 0.91234, "n": 1000, "error": 0.0123},
            {"name": "a|b", "value": None},
            {"no": "name"},
        ],
        "licence": "CC BY 4.0",
    }
    classifier = fitted(of_pictures(about=about, train_counts=[1, 2000, 3, 0]), "lac:0.2,cap:3")
    assert "numbers" not in classifier.about  # those of another rule
    classifier.about = about
    card = model_card(classifier)
    for part in (
        "# Leaves",
        "pictures of 8 × 8 pixels",
        classifier.inputs.preparation,
        'Classifier.load("FOLDER")',
        "shortlist predict FOLDER leaf.jpg",
        "- name: flora",
        "- method: noised top-k",
        "| average-5 | 0.9123 | 0.02411 | 1,000 |",
        "| a\\|b | – | – | – |",
        "rule: `lac:0.2,cap:3`",
        classifier.rule.guarantee,
        "It knows 4 classes",
        "0 to 2,000, 1 had none",
        "ash, birch, elm, oak",
        "## Licence\n\nCC BY 4.0",
    ):
        assert part in card, part


def test_card_of_little_is_whole():
    network = Network("features", "linear", InputSpec("features", 3, (0,) * 3, (1,) * 3), 4)
    card = model_card(Classifier(network, NAMES, single_label=False))
    assert "rows of 3 features" in card
    assert "Its scores are not probabilities" in card
    assert "no set rule yet" in card
    assert "any number of labels" in card
    assert "## Data" not in card
    assert "## Numbers" not in card
    assert "None" not in card


def test_card_escapes_names():
    card = model_card(Classifier(of_features().network, ODD_NAMES, about={"data": "# no *heading*\n- no list"}))
    assert r"a\|b\*c\_\[x\](y)" in card
    assert r"\<script\>\&amp;" in card
    assert "🌿" in card
    assert "\n\\# no \\*heading\\*\\\\n- no list\n" in card
    card.encode()  # halves of characters would not


def test_card_of_many_classes_is_short():
    network = Network("features", "linear", InputSpec("features", 3, (0,) * 3, (1,) * 3), 1000)
    card = model_card(Classifier(network, [f"class{n}" for n in range(1000)]))
    assert "… and 800 more in `classes.json`" in card
    assert "class200" not in card


@pytest.mark.parametrize("link", [Identity(), Sigmoid(), SPA(), Softmax(), Isotonic().fit(rows(30, 4), labels(30))])
def test_card_names_the_link(link):
    assert f"link: `{link!r}`" in model_card(of_features(link=link))


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    path = tmp_path / "classifier"
    first, second = (fitted(of_features(), rule) for rule in ("top-k:1", "top-k:2"))
    first.save(path)
    read, seen = artefact._read_tensors, []

    def replaced(*given):
        if not seen:
            seen.append(given)
            second.save(path)
        return read(*given)

    monkeypatch.setattr(artefact, "_read_tensors", replaced)
    assert str(Classifier.load(path).rule) == str(second.rule)
    (path / "classes.json").write_text("[]")
    with pytest.raises(InputError, match="classes.json"):
        Classifier.load(path)


def test_a_folder_left_aside_that_goes_while_it_is_looked_for_is_none(tmp_path, monkeypatch):
    path = tmp_path / "classifier"
    (tmp_path / f".classifier.{files.OLD}.1").mkdir()
    monkeypatch.setattr(files.Path, "iterdir", lambda folder: (_ for _ in ()).throw(FileNotFoundError(folder)))
    assert files.folders_left_aside(path) == []
