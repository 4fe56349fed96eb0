"""Weights of one's own: matched by name behind a common beginning, strict about what the backbone lacks, no pickle read."""

import pytest
import torch
from safetensors.torch import save_file

from shortlist.errors import InputError
from shortlist.models.backbones import make_backbone
from shortlist.models.weights import load_weights
from shortlist.training import train
from shortlist.training.callbacks import Callback
from shortlist.training.recipe import Recipe

NAME = "resnet-8"


def drawn(seed):
    torch.manual_seed(seed)
    return make_backbone(NAME)


def same(first, second):
    return all(torch.equal(one, second.state_dict()[name]) for name, one in first.state_dict().items())


@pytest.mark.parametrize("before", ["", "backbone.", "module.encoder."])
def test_weights_are_matched_by_name(tmp_path, before):
    theirs, ours = drawn(1), drawn(2)
    tensors = {before + name: tensor for name, tensor in theirs.state_dict().items()} | {"head.weight": torch.zeros(3, 4)}
    save_file(tensors, tmp_path / "mine.safetensors")
    told = load_weights(ours, tmp_path / "mine.safetensors")
    assert same(theirs, ours)
    assert told.endswith("1 tensor of the file was not used (head.weight)")
    assert told.startswith(f"{len(theirs.state_dict())} tensors loaded from mine.")


def test_what_does_not_match_is_an_error_and_changes_nothing(tmp_path):
    tensors, ours, before = drawn(1).state_dict(), drawn(2), drawn(2)
    name = next(name for name in tensors if name.endswith("weight"))
    save_file({one: tensor for one, tensor in tensors.items() if one != name}, tmp_path / "less.safetensors")
    with pytest.raises(InputError, match=rf"weights: .* none for 1 tensor of {len(tensors)} \('{name}'\)"):
        load_weights(ours, tmp_path / "less.safetensors")
    save_file(tensors | {name: torch.zeros(1, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match=rf"weights: expected '{name}' of shape .*, got \(1, 2\)"):
        load_weights(ours, tmp_path / "other.safetensors")
    assert same(ours, before)


def test_a_file_of_two_networks_is_refused_unless_one_has_the_names_of_the_backbone(tmp_path):
    """Which of the two is meant, nobody can tell: a file of MoCo would have given the momentum encoder."""
    student, teacher, ours = drawn(1).state_dict(), drawn(2).state_dict(), drawn(3)
    both = {f"{before}{name}": tensor for before, of in (("q.", student), ("k.", teacher)) for name, tensor in of.items()}
    save_file(both, tmp_path / "both.safetensors")
    with pytest.raises(InputError, match=r"weights: expected one network in both.safetensors, got 2 \('k\.', 'q\.'\)"):
        load_weights(ours, tmp_path / "both.safetensors")
    assert same(ours, drawn(3))
    save_file(student | {f"average.{name}": tensor for name, tensor in teacher.items()}, tmp_path / "plain.safetensors")
    load_weights(ours, tmp_path / "plain.safetensors")
    assert same(ours, drawn(1))


def test_weights_that_no_network_has_are_refused(tmp_path):
    """Codes of a quantised network have the names and the shapes of its weights, and not their values."""
    tensors, ours = drawn(1).state_dict(), drawn(2)
    name = next(name for name in tensors if name.endswith("weight"))
    save_file(tensors | {name: (100 * tensors[name]).to(torch.int8)}, tmp_path / "codes.safetensors")
    with pytest.raises(InputError, match=rf"weights: expected floating point in '{name}', got int8"):
        load_weights(ours, tmp_path / "codes.safetensors")
    for value in (torch.nan, torch.inf):
        broken = tensors[name].clone()
        broken.view(-1)[3] = value
        save_file(tensors | {name: broken}, tmp_path / "broken.safetensors")
        with pytest.raises(InputError, match=rf"weights: expected finite numbers in '{name}'"):
            load_weights(ours, tmp_path / "broken.safetensors")
    assert same(ours, drawn(2))
    half = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    save_file(half, tmp_path / "half.safetensors")
    load_weights(ours, tmp_path / "half.safetensors")
    assert all(torch.equal(tensor, half[name].to(tensor.dtype)) for name, tensor in ours.state_dict().items())


def test_files_that_are_no_weights_are_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (tmp_path.joinpath("ran").touch, ())

    torch.save({"weight": Evil()}, tmp_path / "evil.pt")
    (tmp_path / "text.safetensors").write_text("hello")
    save_file({}, tmp_path / "empty.safetensors")
    refused = {"evil.pt": "convert it", "text.safetensors": "cannot be read", "empty.safetensors": "expected tensors"}
    for name, said in refused.items():
        with pytest.raises(InputError, match=f"weights: .*{said}"):
            load_weights(drawn(0), tmp_path / name)
    assert not (tmp_path / "ran").exists()
    (tmp_path / "notes.txt").write_text("hello")
    for name in ("none.safetensors", "none.pt", "notes.txt", ""):
        with pytest.raises(InputError, match="weights: expected a .safetensors file"):
            load_weights(drawn(0), tmp_path / name)


class Heard(Callback):
    def __init__(self):
        self.sentences = []

    def message(self, sentence):
        self.sentences.append(sentence)


def test_training_starts_from_them(tmp_path):
    theirs = drawn(5)
    save_file(theirs.state_dict(), tmp_path / "mine.safetensors")
    data = "flora:species=6,genera=2,train=32,val=16,test=16,size=16"
    recipe = Recipe("tiny", data, method="cross-entropy", rule="top-k:2", backbone=NAME, epochs=1, lr=1e-12, batch_size=32)
    heard = Heard()
    found = train(
        recipe.with_settings(weights=str(tmp_path / "mine.safetensors")), tmp_path / "run", callback=heard, device="cpu"
    )
    trained = found.classifier.network.backbone.state_dict()
    for name, tensor in theirs.named_parameters():
        assert torch.allclose(trained[name], tensor, atol=1e-6), name
    assert any(sentence.startswith(f"backbone {NAME}: ") for sentence in heard.sentences)
    with pytest.raises(InputError, match="weights: expected a .safetensors file"):
        train(recipe.with_settings(weights="none.safetensors"), tmp_path / "other", device="cpu")
    assert not (tmp_path / "other" / "recipe.json").exists()


def test_weights_beside_others_are_refused(tmp_path):
    recipe = Recipe("tiny", "flora", method="cross-entropy", backbone=NAME, weights="mine.safetensors")
    with pytest.raises(InputError, match="weights: expected None beside a network of your own"):
        train(recipe, tmp_path / "run", network=lambda classes: torch.nn.Flatten())
    with pytest.raises(InputError, match="weights: expected None with pretrained"):
        train(recipe.with_settings(backbone="timm:resnet18", pretrained=True), tmp_path / "run")
