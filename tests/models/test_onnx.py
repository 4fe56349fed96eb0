"""The exported graph answers as the classifier does."""

import io
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from shortlist.errors import InputError
from shortlist.links import Identity, Isotonic, Platt, Quasibinary, Sigmoid, Softmax, SparseTop, VennAbers
from shortlist.models import graph
from shortlist.models.classifier import Classifier
from shortlist.models.graph import Careful, Graph, GraphRule, PlainSparseTop, plain_link
from shortlist.models.input_spec import InputSpec
from shortlist.models.network import Network
from shortlist.models.onnx import translated
from shortlist.recipes import find_recipe
from shortlist.sets import aps, average_k, cap, floor, lac, parse_rule, pas, raps, threshold, top_k
from tests.links.test_link_battery import FORMS, ready, wide
from tests.models.classifiers import NAMES, fitted, image, labels, of_features, of_pictures, pictures, rows
from tests.sets.cases import CASES, IN_ONE_PLACE, draw

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

NEAR = 1e-6


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    content = path if isinstance(path, bytes) else str(path)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run(path, given):
    """The outputs by name."""
    opened = session(path)
    found = opened.run(None, {opened.get_inputs()[0].name: given.numpy()})
    return {output.name: torch.from_numpy(value) for output, value in zip(opened.get_outputs(), found, strict=True)}


def fitted_case(case):
    data = draw(case.many_labels)
    rule = case.make(data.prior)
    return rule.fit(torch.from_numpy(data.calibration).float(), torch.from_numpy(data.target)), data


def hard_probabilities():
    """Ties, zeros, ones, equal rows, numbers that lie on a decimal threshold, and random ones."""
    generator = torch.Generator().manual_seed(0)
    few = torch.tensor([0.0, 0.2, 0.3, 0.3, 0.5, 1.0])
    return torch.cat(
        [
            torch.full((1, 5), 0.2),
            torch.zeros(1, 5),
            torch.ones(1, 5),
            torch.eye(5),
            torch.tensor([[0.1, 0.3, 0.3, 0.3, 0.0], [0.3, 0.1, 0.3, 0.0, 0.3], [1e-30, 0, 1e-38, 1e-40, 1e-30]]),
            few[torch.randint(0, 6, (200, 5), generator=generator)],
            torch.softmax(3 * torch.randn(300, 5, generator=generator), 1),
        ]
    )


# The graph is the same function


IN_GRAPHS = [case for case in CASES + IN_ONE_PLACE if fitted_case(case)[0].groups is None]  # a graph knows no groups


@pytest.mark.parametrize("case", IN_GRAPHS, ids=str)
def test_rules_without_branches_are_the_rules(case):
    rule, data = fitted_case(case)
    probs = torch.cat([hard_probabilities(), torch.from_numpy(data.new).float()])
    assert torch.equal(GraphRule(rule)(probs), rule(probs))


@pytest.mark.parametrize(
    "make", [lambda: average_k(1.3), lambda: lac(0.37), lambda: pas(0.37, [0.7, 0.2, 0.1]), lambda: threshold(0.7)]
)
def test_thresholds_that_float32_cannot_hold_are_compared_with_as_the_rule_does(make):
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        calibration = torch.softmax(torch.randn(40, 3, generator=generator, dtype=torch.float64), 1)
        rule = make().fit(calibration, torch.randint(0, 3, (40,), generator=generator))
        exact = rule.threshold if rule.ordering.descending else 1 - rule.threshold
        prior = getattr(rule.ordering, "prior", None)
        at = (exact * (1.0 if prior is None else prior)).float().expand(3)
        steps = [at]
        for towards in (0.0, 1.0):
            near = at
            for _ in range(3):
                near = torch.nextafter(near, torch.tensor(towards))
                steps.append(near)
        probs = torch.stack(steps)
        assert torch.equal(GraphRule(rule)(probs), rule(probs))


@pytest.mark.filterwarnings("ignore:.*many tie at the threshold")
def test_a_threshold_of_1_takes_every_label_in_the_graph_too():
    """Sums of float32 probabilities miss 1 by their rounding; neither path may lose the last label to it."""
    probs = (4 * torch.randn(500, 7, generator=torch.Generator().manual_seed(0))).softmax(1)
    for make in (aps, raps):
        rule = make(0.1, randomized=False).fit(probs[:250], probs[:250].argmin(1))
        assert rule(probs).all()
        assert GraphRule(rule)(probs).all()


@pytest.mark.parametrize("least", [0, 1, 3, 5])
@pytest.mark.parametrize("most", [0, 2, 4, 5])
def test_bounds_without_branches_are_the_bounds(least, most):
    if least > most:
        pytest.skip("a floor above the cap is refused")
    for rule in (threshold(0.3), fitted_case(next(case for case in CASES if case.name == "pas"))[0]):
        bounded = cap(floor(rule, least), most)
        probs = hard_probabilities()
        assert torch.equal(GraphRule(bounded)(probs), bounded(probs))


@pytest.mark.parametrize("name", FORMS)
def test_links_spelled_out_are_the_links(name):
    link = ready(name)
    generator = torch.Generator().manual_seed(0)
    scores = torch.cat([wide(link), 20 * torch.randn(500, 4, generator=generator), torch.randn(500, 4, generator=generator)])
    scores = scores.sigmoid() if name == "identity" else scores  # which takes probabilities only
    with Careful():
        found = plain_link(ready(name)).probs(scores)
    # Isotonic maps are steep: the last digit of a score may be the fourth of a probability.
    torch.testing.assert_close(found, link.probs(scores), rtol=1e-4 if "isotonic" in name else 2e-5, atol=1e-7)


def test_spelled_out_functions_are_the_functions():
    far = torch.tensor([-110.0, -90, -50, -20, -5, -1, -1e-3, -1e-9, -1e-20, 0, 1e-20, 1e-9, 1e-3, 1, 5, 20, 50, 88])
    for spelled, function, points in (
        (graph.sigmoid, torch.sigmoid, far),
        (graph.expm1, torch.expm1, far),
        (graph.log1p, torch.log1p, far[far > -1]),
        (graph.logsigmoid, nn.functional.logsigmoid, far),
    ):
        torch.testing.assert_close(spelled(points), function(points), rtol=1e-6, atol=0.0)
    assert graph.log1p(torch.tensor(-1.0)) == -torch.inf
    one, other = far[:, None].expand(-1, len(far)), far
    torch.testing.assert_close(graph.logaddexp(one, other), torch.logaddexp(one, other), rtol=1e-6, atol=1e-7)
    table = torch.cat([one.contiguous(), torch.full((2, len(far)), -torch.inf)])
    table[-1, 3] = 2.0
    torch.testing.assert_close(graph.logsumexp(table, 1), torch.logsumexp(table, 1), rtol=1e-6, atol=1e-7)
    odd = torch.tensor([torch.inf, -torch.inf, torch.nan, 1.0])
    found = graph.nan_to_num(odd, nan=torch.nan, posinf=9.0, neginf=-9.0)
    assert torch.equal(found[[0, 1, 3]], torch.tensor([9.0, -9.0, 1.0]))
    assert found[2].isnan()


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 9])
def test_search_by_halves_is_the_search(width):
    knots = torch.randint(0, 5, (3, width), generator=torch.Generator().manual_seed(0)).sort(1).values.double()
    points = torch.arange(-1, 6).double().expand(3, -1).contiguous()
    assert torch.equal(graph.searchsorted(knots, points), torch.searchsorted(knots, points))


@pytest.mark.parametrize("k", [0, 0.3, 1, 1.5, 2, 3.9, 4])
def test_projection_by_halves_is_the_projection(k):
    generator = torch.Generator().manual_seed(0)
    scores = torch.cat([torch.zeros(1, 4), torch.eye(4) * 50, 1e4 * torch.ones(1, 4), torch.randn(200, 4, generator=generator)])
    torch.testing.assert_close(PlainSparseTop(k).probs(scores), SparseTop(k).probs(scores), rtol=1e-5, atol=1e-6)


def test_plain_links_reach_down_to_the_base():
    link = plain_link(Platt(SparseTop()).fit(torch.randn(30, 4), labels(30)))
    assert isinstance(link.base, PlainSparseTop)


def test_the_graph_standardises_exactly_as_the_classifier():
    for classifier, given in ((of_pictures(), pictures(20)), (of_features(), rows(20))):
        made = Graph(classifier)
        assert torch.equal((given.float() - made.center) / made.spread, classifier.inputs.prepare(given))


# The exported graph is the same function


class EveryRule(nn.Module):
    """All rules on the same probabilities, so that one export tries them all."""

    def __init__(self, rules):
        super().__init__()
        self.rules = nn.ModuleList(map(GraphRule, rules))

    def forward(self, probs):
        with Careful():
            return tuple(rule(probs) for rule in self.rules)


class EveryLink(nn.Module):
    """All links on the same scores, likewise."""

    def __init__(self, links):
        super().__init__()
        self.links = nn.ModuleList(map(plain_link, links))

    def forward(self, scores):
        with Careful():
            return tuple(link.probs(scores) for link in self.links)


def exported(module, width):
    outputs = [f"out{place}" for place in range(len(next(iter(module.children()))))]
    buffer = io.BytesIO()
    onnx.save(translated(module, {"values": torch.rand(2, width)}, outputs).model_proto, buffer)
    return buffer.getvalue()


def test_every_rule_is_exported_with_its_ties():
    rules = [fitted_case(case)[0] for case in IN_GRAPHS]
    content = exported(EveryRule(rules), 5)
    for probs in (hard_probabilities(), hard_probabilities()[:1], hard_probabilities()[8:15]):
        found = list(run(content, probs).values())
        for case, rule, sets in zip(IN_GRAPHS, rules, found, strict=True):
            assert torch.equal(sets, rule(probs)), case.name


@pytest.mark.filterwarnings("ignore:.*many tie at the threshold")
def test_penalties_that_float32_cannot_hold_are_added_as_the_rule_adds_them():
    """Sure of one label, every other one lies exactly at a penalty: the graph may not put it beyond the threshold."""
    sure, target = torch.eye(4).repeat(25, 1), torch.arange(100) // 25
    rules = [
        raps(0.2, penalty, k_reg, randomized=False).fit(sure, target) for penalty in (0.1, 0.01, 0.3, 0.7) for k_reg in (0, 1)
    ]
    found = list(run(exported(EveryRule(rules), 4), sure).values())
    for rule, sets in zip(rules, found, strict=True):
        assert rule(sure)[torch.arange(100), target].float().mean() >= 0.8
        assert torch.equal(sets, rule(sure)), rule.text


# The projection alone is as long as all the others together; identity takes probabilities, not scores.
@pytest.mark.parametrize(
    "names",
    [
        ["softmax", "sigmoid", "asy", "temperature", "isotonic, one label a row", "reweighted"],
        pytest.param([name for name in FORMS if name not in ("sparse-top", "identity")], marks=pytest.mark.slow, id="all"),
        pytest.param(["sparse-top"], marks=pytest.mark.slow),
    ],
)
def test_links_are_exported_with_their_extremes(names):
    links = [ready(name) for name in names]
    generator = torch.Generator().manual_seed(0)
    scores = torch.cat(
        [wide(ready("sigmoid")), 20 * torch.randn(300, 4, generator=generator), torch.randn(300, 4, generator=generator)]
    )
    found = list(run(exported(EveryLink([ready(name) for name in names]), 4), scores).values())
    for name, link, probs in zip(names, links, found, strict=True):
        steep = 1e-4 if "isotonic" in name else 2e-5
        torch.testing.assert_close(
            probs, link.probs(scores), rtol=steep, atol=2e-7, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("kind", [Isotonic, VennAbers])
@pytest.mark.parametrize("base", [Softmax, Identity])
def test_rows_that_tie_are_at_the_same_step_in_the_graph(kind, base):
    """The runtime's logarithms differ in the last digit from those that the links were fitted on."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(-4, 4, (600, 5), generator=generator) / 2
    chosen = scores.softmax(1).multinomial(11, replacement=True, generator=generator)
    target, votes = chosen[:, 0], chosen[:, 1:]
    shares = votes[..., None].eq(torch.arange(5)).sum(1) / 10  # zeros among them
    given = shares if base is Identity else scores
    link, again = (kind(base()).fit(given, target) for _ in range(2))
    (found,) = run(exported(EveryLink([again]), 5), given).values()
    torch.testing.assert_close(found, link.probs(given), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [Isotonic, VennAbers])
@pytest.mark.parametrize("rounding", [2, 3, torch.float16, torch.bfloat16], ids=str)
def test_rounded_probabilities_are_at_the_same_step_in_the_graph(kind, rounding):
    """Their rows do not sum to one; some have a probability of 1, beside others that are not 0."""
    generator = torch.Generator().manual_seed(1)
    truth = (4 * torch.randn(600, 5, generator=generator)).softmax(1)
    target = truth.multinomial(1, generator=generator)[:, 0]
    given = truth.to(rounding).float() if isinstance(rounding, torch.dtype) else truth.double().round(decimals=rounding).float()
    given[:3] = torch.tensor([[1.0, 0.01, 0, 0, 0], [1.0, 0, 0, 0, 0], [0.99, 0, 0, 0, 0]])
    link, again = (kind(Identity()).fit(given, target) for _ in range(2))
    (found,) = run(exported(EveryLink([again]), 5), given).values()
    torch.testing.assert_close(found, link.probs(given), rtol=1e-6, atol=1e-7)


def extremes(size):
    """All black, all white, one pixel, and noise."""
    single = torch.zeros(2, 3, size, size, dtype=torch.uint8)
    single[0, 1, 0, 0] = single[1, 2, -1, -1] = 255
    black = torch.zeros(1, 3, size, size, dtype=torch.uint8)
    return torch.cat([black, black + 255, single, pictures(13, size)])


def test_pictures_are_answered_as_by_the_classifier(tmp_path):
    classifier = fitted(of_pictures("resnet-8", "two-head", link=Sigmoid()), "average-k:1.5,cap:3,floor:1")
    path = tmp_path / "deep" / "model.onnx"
    classifier.export_onnx(path)
    assert [entry.name for entry in path.parent.iterdir()] == ["model.onnx"]
    given = extremes(8)
    for batch in (given, given[:1], given[3:10]):
        found, expected = run(path, batch), classifier.predict(batch)
        torch.testing.assert_close(found["scores"], expected.scores, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(found["probs"], expected.probabilities, rtol=1e-3, atol=1e-5)
        assert torch.equal(found["sets"], expected.sets)
        assert [value.dtype for value in found.values()] == [torch.float32, torch.float32, torch.bool]
    model = onnx.load(path)
    onnx.checker.check_model(model)
    told = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert told["shortlist.classes"] == NAMES
    assert told["shortlist.rule"] == "average-k:1.5,cap:3,floor:1"
    assert told["shortlist.link"] == "sigmoid"
    assert told["shortlist.guarantee"] == classifier.rule.guarantee
    assert told["shortlist.inputs"] == classifier.inputs.record()
    (image,) = model.graph.input
    assert image.name == "images"
    assert image.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    for value in (image, *model.graph.output, *model.graph.value_info):
        named = {axis.dim_param for axis in value.type.tensor_type.shape.dim if axis.dim_param}
        assert named <= {"batch"}, value.name
    assert [value.type.tensor_type.shape.dim[0].dim_param for value in (image, *model.graph.output)] == ["batch"] * 4


@pytest.mark.parametrize("text", ["lac:0.2", pytest.param("aps:0.4", marks=pytest.mark.slow)])
def test_a_hundred_thousand_rows_differ_only_at_the_threshold(text, tmp_path):
    classifier = fitted(of_features(), text)
    classifier.export_onnx(tmp_path / "x.onnx")
    given = rows(100_000, seed=7)
    found, expected = run(tmp_path / "x.onnx", given), classifier.predict(given, batch_size=10_000)
    differ = (found["sets"] != expected.sets).any(1)
    at = (classifier.rule.ordering(expected.probabilities) - classifier.rule.threshold).abs().amin(1) < NEAR
    counted = f"{int(differ.sum())} of {len(given)} rows differ, {int(at.sum())} lie within {NEAR} of the threshold"
    assert not (differ & ~at).any(), counted
    assert int(differ.sum()) < 20, counted


def test_without_link_and_rule_only_scores_come_out(tmp_path):
    classifier = Classifier(of_features("features").network, ["caf\udce9", "b\n", "🌿", "d"], train_counts=[1, 1, 1, 1])
    classifier.export_onnx(tmp_path / "x.onnx")
    found = run(tmp_path / "x.onnx", rows(3))
    assert list(found) == ["scores"]
    graph_ = onnx.load(tmp_path / "x.onnx").graph
    assert [value.type.tensor_type.shape.dim[0].dim_param for value in (*graph_.input, *graph_.output)] == ["batch", "batch"]
    torch.testing.assert_close(found["scores"], classifier.scores(rows(3)))
    told = {entry.key: json.loads(entry.value) for entry in onnx.load(tmp_path / "x.onnx").metadata_props}
    assert told["shortlist.classes"] == ["caf\udce9", "b\n", "🌿", "d"]
    assert told["shortlist.rule"] is None


@pytest.mark.slow
def test_without_a_link_rules_act_on_scores_and_half_precision_becomes_whole(tmp_path):
    classifier = Classifier(of_features("features").network, NAMES, rule=top_k(2)).bfloat16()
    classifier.export_onnx(tmp_path / "x.onnx", opset=20)
    found = run(tmp_path / "x.onnx", rows(50))
    assert list(found) == ["scores", "sets"]
    assert torch.equal(found["sets"], top_k(2)(found["scores"]))
    assert next(classifier.network.parameters()).dtype == torch.bfloat16
    assert onnx.load(tmp_path / "x.onnx").opset_import[0].version == 20


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["plain-4-8", "densenet-bc-10-4", "resnet-14x2/2"])
@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_backbones_and_heads_are_exported(backbone, head, tmp_path):
    classifier = fitted(of_pictures(backbone, head, size=9), "average-k:1.5")
    classifier.export_onnx(tmp_path / "x.onnx")
    found, expected = run(tmp_path / "x.onnx", extremes(9)), classifier.predict(extremes(9))
    torch.testing.assert_close(found["probs"], expected.probabilities, rtol=1e-3, atol=1e-5)
    assert torch.equal(found["sets"], expected.sets)


def test_weights_beyond_the_limit_of_the_format_go_to_a_second_file(tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.models.onnx.MOST_BYTES", 0)
    classifier = of_features("mlp-512", rule=top_k(2))  # small tensors stay in the graph
    classifier.export_onnx(tmp_path / "x.onnx")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["x.onnx", "x.onnx.data"]
    assert torch.equal(run(tmp_path / "x.onnx", rows(9))["sets"], classifier.predict(rows(9)).sets)


# What is refused


def test_randomised_rules_are_refused_before_anything_is_written(tmp_path):
    classifier = of_features()
    rule = parse_rule("aps:0.2:random").fit(classifier.predictions(rows(50), labels(50)))
    with pytest.raises(InputError, match=r"cannot export aps:0.2:random: it is randomised"):
        classifier.with_rule(rule).export_onnx(tmp_path / "deep" / "x.onnx")
    assert list(tmp_path.iterdir()) == []


def test_unfitted_links_are_refused(tmp_path):
    with pytest.raises(InputError, match="has not been fitted"):
        of_features(link=Quasibinary()).export_onnx(tmp_path / "x.onnx")


@pytest.mark.parametrize("opset", [3, "new", 17.5])
def test_opsets_that_torch_cannot_write_are_refused(opset, tmp_path):
    with pytest.raises(InputError, match="opset: expected a whole number from 18"):
        of_features().export_onnx(tmp_path / "x.onnx", opset=opset)


def test_an_opset_that_is_too_new_is_refused_before_anything_is_written(tmp_path, monkeypatch, caplog):
    newest = onnx.defs.onnx_opset_version()
    with pytest.raises(
        InputError, match=f"^opset: expected a whole number from 18 to {newest}, the newest that onnx has, got 99$"
    ):
        of_features("features").export_onnx(tmp_path / "deep" / "x.onnx", opset=99)
    # Where onnx has heard of it and the exporter cannot reach it all the same, it keeps what it has and only logs it.
    monkeypatch.setattr("onnx.defs.onnx_opset_version", lambda: 100)
    with pytest.raises(InputError, match=r"^opset: .*got 99$"):
        of_features("features").export_onnx(tmp_path / "deep" / "x.onnx", opset=99)
    assert list(tmp_path.iterdir()) == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("name", ["onnx", "onnxscript"])
def test_missing_packages_are_named(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=rf"export to ONNX needs {name}: pip install 'shortlist\[onnx\]'"):
        of_features().export_onnx(tmp_path / "x.onnx")


def test_what_cannot_be_exported_is_said_in_one_sentence(tmp_path):
    class Branching(nn.Module):
        num_features = 3

        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    classifier = of_features("features")
    classifier.network.backbone = Branching()
    with pytest.raises(InputError, match="cannot export features to ONNX: ") as caught:
        classifier.export_onnx(tmp_path / "x.onnx")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_way_is_left_alone(tmp_path):
    (tmp_path / "x.onnx").mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        of_features("features").export_onnx(tmp_path / "x.onnx")


def test_importing_the_classifier_does_not_load_the_exporter():
    listed = "[name for name in ('onnx', 'onnxscript', 'PIL') if name in sys.modules]"
    code = f"import sys, shortlist.models.classifier; print({listed})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("shape", [(64, 64), (75, 74), (97, 131), (40, 33)])
def test_the_code_of_the_tutorial_prepares_pictures_as_the_library_does(shape, tmp_path, monkeypatch, capsys):
    """Run as it is printed, on pictures of odd sizes, for a classifier of the recipe that the tutorial trains with."""
    page = (Path(__file__).parents[2] / "docs/tutorial.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import json\n.*?)```", page, re.S)
    inputs = InputSpec.pictures(64, fit=find_recipe("pictures").test_fit)
    torch.manual_seed(0)
    classifier = Classifier(Network("plain-4", "linear", inputs, len(NAMES)), NAMES, link=Softmax(), rule=top_k(2))
    monkeypatch.chdir(tmp_path)
    classifier.export_onnx("garden.onnx")
    Path("new").mkdir()
    image(*shape).save("new/new-0002.png")
    found = {}
    exec(code, found)
    answers = classifier.predict("new/new-0002.png")
    torch.testing.assert_close(torch.from_numpy(found["probs"]), answers.probabilities, rtol=1e-5, atol=1e-6)
    printed = capsys.readouterr().out
    assert all(name in printed for name in answers.names[0])
    assert json.loads(found["metadata"]["shortlist.preparation"]) == inputs.preparation
    assert "74 × 74" in inputs.preparation
