"""Laws of every loss, as a function and as a module."""

import inspect
import subprocess
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from shortlist import losses
from shortlist.errors import InputError
from tests.losses.cases import CASES, CLASSES, FUNCTIONS, OF_STATE, PER_CALL, ROWS, WITH_GRADIENT, by_class, camel, draw

every_loss = pytest.mark.parametrize("case", CASES, ids=str)
every_function = pytest.mark.parametrize("name", FUNCTIONS)
STEP = 1e-6


def numbers(values):
    return torch.tensor(values, dtype=torch.float64)


def differences(case, batch):
    """Central differences of the literal formula with respect to all that has a gradient; what is stopped stands still."""
    found, leaves = [], {name: leaf.detach() for name, leaf in batch.leaves().items()}
    held = {"held": {n: v.numpy() for n, v in leaves.items()}} if case.stops_gradients else {}
    for name, leaf in leaves.items():
        gradient = torch.zeros_like(leaf)
        for place in range(leaf.numel()):
            ends = []
            for step in (STEP, -STEP):
                moved = leaf.clone()
                moved.view(-1)[place] += step
                ends.append(case.expected_mean(batch.put(**{**leaves, name: moved}), **held))
            gradient.view(-1)[place] = (ends[0] - ends[1]) / (2 * STEP)
        found.append(gradient)
    return found


@every_function
def test_every_loss_has_a_case(name):
    assert name in {case.name for case in CASES}


@every_function
def test_everything_after_the_target_is_a_keyword_and_the_mean_is_the_default(name):
    first, second, *others = inspect.signature(getattr(losses, name)).parameters.values()
    assert first.name in ("scores", "log_odds")
    assert second.name == "target"
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in others)
    assert {parameter.name: parameter.default for parameter in others}["reduction"] == "mean"


@every_function
def test_constructor_and_forward_have_the_keywords_defaults_and_types_of_the_function(name):
    function, module = getattr(losses, name), getattr(losses, camel(name))
    keywords = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    built = [p for p in inspect.signature(module).parameters.values() if p.name not in OF_STATE]
    assert built == [p for p in keywords if p.name not in PER_CALL]
    per_call = [p for p in inspect.signature(module.forward).parameters.values() if p.kind is p.KEYWORD_ONLY]
    own = {p.name: p for p in keywords if p.name in PER_CALL}
    assert {p.name for p in per_call} == set(own)
    for parameter in per_call:
        if name != "average_k_loss":  # whose module takes a pair of scores in place of this keyword
            assert parameter == own[parameter.name]


@every_function
def test_constructors_are_written_out(name):
    """So that type checkers and editors see them, not only Python at run time."""
    source = inspect.getsource(getattr(losses, camel(name)).__init__)
    assert "**" not in source
    assert "def __init__" in source


def test_every_module_with_a_function_is_named_after_it():
    classes = [c for c in vars(losses).values() if inspect.isclass(c) and issubclass(c, losses.Loss) and hasattr(c, "function")]
    assert {c.__name__ for c in classes} == {camel(name) for name in FUNCTIONS}
    assert {c.__name__ for c in classes} <= set(losses.__all__)
    assert all(c.__name__ == camel(c.function.__name__) for c in classes)


@every_loss
def test_a_module_has_nothing_to_learn_or_to_save_and_says_what_it_elicits(case):
    module = case.module(draw(case))
    assert list(module.parameters()) == []
    assert module.state_dict() == {}
    assert module.elicits in ("probabilities", "order", "top-k set", "average-k set", "nothing")
    assert module.couples == case.coupled


@every_loss
@pytest.mark.parametrize("seed", [0, 1])
def test_the_loss_equals_the_literal_formula_in_every_reduction(case, seed):
    batch = draw(case, seed=seed)
    expected = numbers(case.expected(batch))
    mean = expected if case.coupled else expected.mean()
    assert_close(case.loss(batch), mean, rtol=1e-10, atol=1e-10)
    assert_close(case.loss(batch, reduction="mean"), mean, rtol=1e-10, atol=1e-10)
    assert_close(case.loss(batch, reduction="sum"), mean * ROWS, rtol=1e-10, atol=1e-10)
    if case.coupled:
        for call in (lambda: case.loss(batch, reduction="none"), lambda: case.module(batch, reduction="none")):
            with pytest.raises(InputError, match="expected 'mean' or 'sum', got 'none'"):
                call()
    else:
        assert_close(case.loss(batch, reduction="none"), expected, rtol=1e-10, atol=1e-10)


@every_loss
def test_the_gradient_is_that_of_the_literal_formula(case):
    batch = draw(case, rows=4, seed=2)
    _, gradients = case.with_gradients(batch)
    for gradient, expected in zip(gradients, differences(case, batch), strict=True):
        assert_close(gradient, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("case", [case for case in CASES if not case.stops_gradients], ids=str)
def test_the_gradient_is_that_of_the_value(case):
    batch = draw(case, rows=4, seed=3)
    leaves = batch.leaves()
    for reduction in ("mean", "sum") if case.coupled else ("mean", "none"):
        assert torch.autograd.gradcheck(
            lambda *values, how=reduction: case.loss(batch.put(**dict(zip(leaves, values, strict=True))), reduction=how),
            tuple(leaves.values()),
        )


@every_loss
def test_no_gradient_flows_to_what_is_a_constant(case):
    batch = draw(case)
    constants = {n: v.clone().requires_grad_() for n, v in batch.per_call.items() if n not in WITH_GRADIENT}
    leaves = batch.leaves()
    case.loss(batch.put(**{**leaves, **constants})).backward()
    assert all(constant.grad is None for constant in constants.values())


@every_loss
def test_the_module_equals_the_function(case):
    batch = draw(case)
    for reduction in ("mean", "sum") if case.coupled else ("mean", "sum", "none"):
        found = case.module(batch, reduction=reduction)(batch.scores, batch.target, **batch.per_call)
        assert torch.equal(found, case.loss(batch, reduction=reduction))


@every_loss
def test_permuted_classes_and_rows_have_the_same_loss_and_the_permuted_gradient(case):
    batch = draw(case)
    # Conformal training calibrates on even places and predicts odd ones: rows change places within their half.
    rows = torch.tensor([4, 3, 0, 5, 2, 1] if case.halves else [4, 0, 5, 2, 1, 3])
    classes = torch.tensor([3, 1, 4, 0, 2])
    value, gradients = case.with_gradients(batch)
    permuted, others = case.with_gradients(batch.taken(rows, classes))
    assert_close(permuted, value, rtol=1e-12, atol=1e-12)
    for name, gradient, other in zip(batch.leaves(), gradients, others, strict=True):
        assert_close(other, by_class(name, gradient[rows], classes), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", [case for case in CASES if not case.coupled], ids=str)
def test_rows_do_not_look_at_each_other(case):
    batch = draw(case)
    together = case.loss(batch, reduction="none")
    for row in range(ROWS):
        alone = case.loss(batch.taken(torch.tensor([row]), torch.arange(CLASSES)), reduction="none")
        assert_close(alone, together[row : row + 1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if case.takes == "many"], ids=str)
def test_one_label_a_row_may_be_given_as_labels_or_as_marks(case):
    batch = draw(case)
    target = torch.arange(ROWS) % CLASSES
    marks = torch.zeros(ROWS, CLASSES, dtype=torch.bool).scatter_(1, target[:, None], True)
    assert_close(case.loss(replace(batch, target=target)), case.loss(replace(batch, target=marks)), rtol=1e-13, atol=1e-13)


def assert_same_when_compiled(case, backend, error):
    torch.compiler.reset()
    batch = draw(case, rows=2, seed=1).cast(torch.float32)
    compiled = torch.compile(case.module(batch), backend=backend)
    value, gradients = case.with_gradients(batch)
    found, others = case.with_gradients(batch, lambda b: compiled(b.scores, b.target, **b.per_call))
    assert_close(found, value, rtol=error, atol=error)
    for gradient, other in zip(gradients, others, strict=True):
        assert_close(other, gradient, rtol=error, atol=error)


def quiet_compiler(test):
    """Without the warnings that torch's compiler gives itself; most of them it hides unless they are errors."""
    own = (".*should not be instantiated", "The .grad attribute of a Tensor", "`torch.jit.script_method` is deprecated")
    for message in own:
        test = pytest.mark.filterwarnings(f"ignore:{message}")(test)
    return test


ONE_OF_EACH = list({(case.name, case.keywords.get("smoothing")): case for case in CASES}.values())


@quiet_compiler
@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_a_compiled_loss_is_the_same(case):
    assert_same_when_compiled(case, "aot_eager", 1e-6)


@pytest.fixture(scope="module")
def _compiler(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiler")
    source = folder / "main.cpp"
    source.write_text("#include <vector>\nint main() { return std::vector<int>(1)[0]; }\n")
    try:
        subprocess.run(["c++", "-o", str(folder / "main"), str(source)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no C++ compiler works here: {error}")


@pytest.mark.slow
@pytest.mark.usefixtures("_compiler")
@quiet_compiler
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_loss_compiled_to_machine_code_is_the_same(case):
    assert_same_when_compiled(case, "inductor", 1e-4)
