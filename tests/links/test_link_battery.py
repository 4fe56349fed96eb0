"""Laws that hold for every link."""

import copy
import json

import pytest
import torch

from shortlist.errors import InputError, NotFittedError
from shortlist.links import (
    LDAM,
    SPA,
    AssumeNegative,
    Beta,
    Dirichlet,
    FocalRecovery,
    Identity,
    Isotonic,
    Link,
    Platt,
    Quasibinary,
    Reweighted,
    Sigmoid,
    Softmax,
    SoftmaxFocalRecovery,
    SparseTop,
    Temperature,
    VectorScaling,
    VennAbers,
    link_from_config,
    parse_link,
)

CLASSES = 4
WEIGHTS = [0.5, 3.0, 1.0, 0.01]
MADE = {
    "identity": Identity,
    "softmax": Softmax,
    "sigmoid": Sigmoid,
    "assume-negative": AssumeNegative,
    "spa": SPA,
    "spa with other numbers": lambda: SPA(2, 0.5, -1, 1, 2, 0.5),
    "focal": lambda: FocalRecovery(2, 2),
    "asy": lambda: FocalRecovery(0, 4, 0.05),
    "softmax focal": SoftmaxFocalRecovery,
    "softmax focal below one": lambda: SoftmaxFocalRecovery(0.5),
    "ldam": lambda classes=CLASSES: LDAM(torch.tensor([0.5, 0.1, 0.3, 0.2])[:classes], 2.0),
    "sparse-top": SparseTop,
    "reweighted": lambda classes=CLASSES: Reweighted(Softmax(), WEIGHTS[:classes]),
    "reweighted focal": lambda classes=CLASSES: Reweighted(SoftmaxFocalRecovery(), WEIGHTS[:classes]),
}
BY_CLASS = ("ldam", "reweighted", "reweighted focal")  # they have a number for each class
LEARNT = {
    "quasibinary": Quasibinary,
    "temperature": Temperature,
    "temperature of softmax": lambda: Temperature(Softmax()),
    "temperature of spa": lambda: Temperature(SPA()),
    "temperature of a running link": lambda: Temperature(ready("quasibinary")),
    "platt": Platt,
    "beta": Beta,
    "isotonic": Isotonic,
    "isotonic without pseudo-counts": lambda: Isotonic(pseudo_counts=0),
    "venn-abers": VennAbers,
    "vector-scaling": VectorScaling,
    "dirichlet": Dirichlet,
    "dirichlet of platt": lambda: Dirichlet(ready("platt, one label a row")),
    "isotonic of platt": lambda: Isotonic(ready("platt")),
}
ONE_LABEL = ["vector-scaling", "dirichlet", "dirichlet of platt"]
FORMS = [*MADE, *(name for name in LEARNT if name not in ONE_LABEL), *(f"{name}, one label a row" for name in LEARNT)]


def data(single, classes=CLASSES):
    generator = torch.Generator().manual_seed(0)
    scores = 2 * torch.randn(60, classes, generator=generator)
    if single:
        return scores, torch.multinomial(torch.softmax(scores, 1), 1, generator=generator).squeeze(1)
    return scores, torch.rand(60, classes, generator=generator) < torch.sigmoid(scores)


def ready(name, classes=CLASSES):
    """The link of this name, fitted where it needs to be."""
    plain = name.removesuffix(", one label a row")
    if plain in MADE:
        return MADE[plain](classes) if plain in BY_CLASS else MADE[plain]()
    link = LEARNT[plain]()
    learn = link.update if isinstance(link, Quasibinary) else link.fit
    learn(*data(name != plain or plain in ONE_LABEL, classes))
    return link


def wide(link, dtype=torch.float32):
    """Scores at which rounding and overflow would show."""
    if isinstance(link, Identity):
        return torch.tensor([[0, 1, 0.5, 1e-6], [1, 0, 1, 0]], dtype=dtype)
    return torch.tensor(
        [[-1e4, 1e4, 0, 3], [1e4, 1e4, -1e4, -1e4], [-1e4] * 4, [1e4] * 4, [-20, 20, 90, -90], [-60, 60, 45, -45]], dtype=dtype
    )


def moderate(link, dtype=torch.float64):
    scores = torch.randn(20, CLASSES, generator=torch.Generator().manual_seed(1), dtype=dtype)
    return torch.sigmoid(scores) if isinstance(link, Identity) else scores


@pytest.fixture(params=FORMS)
def link(request):
    return ready(request.param)


def test_battery_covers_every_link():
    assert {ready(name).kind for name in FORMS} == set(Link.kinds)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_probabilities_are_finite_and_between_zero_and_one(link, dtype):
    probs = link.probs(wide(link, dtype))
    assert probs.isfinite().all()
    assert ((probs >= 0) & (probs <= 1)).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_log_odds_are_never_nan(link, dtype):
    assert not link.log_odds(wide(link, dtype)).isnan().any()


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float32,) * 2, (torch.float64,) * 2],
)
def test_half_is_computed_in_float32_and_the_other_precisions_stay(link, dtype, expected):
    scores = moderate(link, dtype)
    assert link.probs(scores).dtype == expected
    assert link.log_odds(scores).dtype == expected
    torch.testing.assert_close(link.probs(scores), link.probs(scores.to(expected)))


def test_float32_agrees_with_float64(link):
    scores = moderate(link, torch.float32)
    torch.testing.assert_close(link.probs(scores).double(), link.probs(scores.double()), rtol=1e-4, atol=1e-5)


def test_log_odds_are_the_logit_of_the_probabilities(link):
    scores = moderate(link)
    probs, odds = link.probs(scores), link.log_odds(scores)
    open_ = (probs > 1e-12) & (probs < 1 - 1e-12)
    assert open_.any()
    torch.testing.assert_close(odds[open_], torch.logit(probs[open_]), rtol=1e-9, atol=1e-9)


def test_scores_undo_probabilities_or_the_link_says_that_it_cannot(link):
    scores = moderate(link)
    try:
        back = link.scores(link.probs(scores))
    except InputError as error:
        assert "has no inverse" in str(error)  # noqa: PT017
        return
    if isinstance(link, Quasibinary | SparseTop):
        torch.testing.assert_close(link.probs(back), link.probs(scores))
    if isinstance(link, SparseTop):
        return  # many scores have the same projection
    if isinstance(link, Quasibinary):
        scores = scores.clamp(max=link.log_normalizer.item())  # above, the probability is clipped at 1
    softmax = isinstance(link, Softmax) or isinstance(getattr(link, "base", None), Softmax)
    constant = (scores - back)[:, :1] if softmax or link.exclusive else 0
    torch.testing.assert_close(back + constant, scores, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["identity", "softmax", "sigmoid", "spa", "focal", "sparse-top", "quasibinary", "reweighted"])
def test_these_links_can_be_undone(name):
    assert ready(name).scores(torch.tensor([[0.2, 0.3, 0.4, 0.1]])).isfinite().all()


def test_forward_is_probs(link):
    assert torch.equal(link(moderate(link)), link.probs(moderate(link)))


def test_input_is_left_as_it_was(link):
    scores = wide(link)
    before = scores.clone()
    link.probs(scores), link.log_odds(scores)
    assert torch.equal(scores, before)


def test_rows_do_not_look_at_each_other(link):
    scores = moderate(link)
    torch.testing.assert_close(link.probs(scores)[3:4], link.probs(scores[3:4]))


def test_empty_batch_has_empty_probabilities(link):
    assert link.probs(torch.zeros(0, CLASSES)).shape == (0, CLASSES)
    assert link.log_odds(torch.zeros(0, CLASSES)).shape == (0, CLASSES)


@pytest.mark.parametrize(
    "name",
    [*MADE, *(name for name in LEARNT if name not in ("isotonic of platt", "temperature of softmax", "dirichlet of platt"))],
)
def test_one_class_is_enough(name):
    link = ready(name, classes=1)
    probs = link.probs(torch.tensor([[0.3], [0.9]]))
    assert probs.shape == (2, 1)
    assert ((probs >= 0) & (probs <= 1)).all()


def test_configuration_and_state_give_the_link_back(link):
    state = {name: tensor.clone() for name, tensor in link.state_dict().items()}
    back = link_from_config(json.loads(json.dumps(link.config())), state)
    assert type(back) is type(link)
    assert back.config() == link.config()
    assert torch.equal(back.probs(moderate(link)), link.probs(moderate(link)))


def test_copy_is_independent_and_equal(link):
    assert torch.equal(copy.deepcopy(link).probs(moderate(link)), link.probs(moderate(link)))


def test_link_has_no_parameters(link):
    assert list(link.parameters()) == []


@pytest.mark.parametrize("scores", [torch.zeros(3), torch.zeros(2, 3, 4), torch.zeros(2, 4, dtype=torch.int64)])
def test_scores_of_another_shape_or_dtype_are_refused(link, scores):
    for method in (link.probs, link.log_odds, link.scores):
        with pytest.raises(InputError, match=r"expected floating point \(N, C\)"):
            method(scores)


@pytest.mark.parametrize("name", MADE)
def test_gradient_of_the_probabilities_is_finite_everywhere(name):
    link = ready(name)
    scores = wide(link).requires_grad_()
    (link.probs(scores) * torch.arange(1.0, 5)).sum().backward()
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("name", MADE)
def test_gradient_of_the_probabilities_is_right(name):
    link = ready(name)
    assert torch.autograd.gradcheck(link.probs, moderate(link).requires_grad_())


@pytest.mark.parametrize("name", [name for name in FORMS if name not in MADE])
def test_use_before_the_fit_says_what_to_call(name):
    link = LEARNT[name.removesuffix(", one label a row")]()
    for method in (link.probs, link.log_odds):
        with pytest.raises(NotFittedError, match=r"has not been fitted: call (fit|update)"):
            method(torch.zeros(1, CLASSES))


@pytest.mark.parametrize(
    "text",
    [
        "identity",
        "softmax",
        "sigmoid",
        "spa:1.0:1.0:0.0:5.0:3.0:1.0",
        "spa:2.0:0.5:-1.0:1.0:2.0:0.5",
        "focal-recovery:0.0:4.0:0.05",
        "softmax-focal-recovery:2.0",
        "ldam:30.0",
        "sparse-top:1.0",
        "quasibinary:0.9",
    ],
)
def test_text_round_trip(text):
    link = parse_link(text)
    assert repr(link) == text
    assert parse_link(repr(link)).config() == link.config()


@pytest.mark.parametrize("text", ["temperature", "platt", "beta", "isotonic", "venn-abers", "vector-scaling", "dirichlet"])
def test_a_name_makes_no_fitted_link(text):
    with pytest.raises(InputError, match=f"shortlist calibrate --method {text}"):
        parse_link(text)


def test_a_name_makes_no_link_on_top_of_another():
    with pytest.raises(InputError, match="Reweighted"):
        parse_link("reweighted")


def test_a_misspelt_link_gets_a_suggestion():
    with pytest.raises(InputError, match="did you mean 'identity'"):
        parse_link("idenity")


def test_text_may_leave_out_numbers_and_the_case():
    assert parse_link(" SPA:2 ").config() == SPA(2.0).config()
    assert parse_link("quasibinary").config() == Quasibinary().config()
    assert parse_link("none") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected one of"),
        ("soft-max", "expected one of identity, .*none; got 'soft-max'"),
        ("softmax:1", "at most 0 numbers"),
        ("none:1", "expected one of"),
        ("spa:1:2:3:4:5:6:7", "at most 6 numbers"),
        ("spa:one", "expected numbers between the colons"),
        ("spa:1:", "expected numbers between the colons"),
        ("spa:-1", "zeta_pos"),
        ("focal-recovery:0:4:1", "shift"),
        ("softmax-focal-recovery:-1", "gamma"),
        ("softmax-focal-recovery:1:2", "at most 1 numbers"),
        ("ldam:0", "scale"),
        ("sparse-top:-1", "k: expected"),
        ("quasibinary:2", "momentum"),
        ("temperature:2", "temperature"),
        ("platt:1", "platt"),
        ("isotonic:1:0", "isotonic"),
    ],
)
def test_text_that_names_no_link_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_link(text)


@pytest.mark.parametrize("config", [{}, {"kind": "soft"}, {"kind": "spa", "zeta": 1}, {"kind": "temperature", "base": {}}])
def test_configuration_of_no_link_is_refused(config):
    with pytest.raises(InputError, match="link"):
        link_from_config(config)


@pytest.mark.parametrize("name", [name for name in FORMS if name not in MADE])
def test_a_link_knows_whether_it_is_fitted(name):
    link = ready(name)
    assert link.fitted
    assert link.missing_buffers() == []
    bare = LEARNT[name.removesuffix(", one label a row")]()
    assert not bare.fitted
    assert bare.missing_buffers()


@pytest.mark.parametrize("name", MADE)
def test_a_link_without_a_fit_has_all_it_needs(name):
    assert ready(name).fitted


@pytest.mark.parametrize("name", [name for name in FORMS if name not in MADE])
def test_a_part_of_the_fitted_numbers_is_refused(name):
    link = ready(name)
    state = dict(link.state_dict())
    for lost in state if len(state) > 1 else ():
        part = {key: tensor for key, tensor in state.items() if key != lost}
        with pytest.raises(InputError, match=rf"^link {link.kind}: .*{lost}, which are missing"):
            link_from_config(link.config(), part)


@pytest.mark.parametrize(
    "name", ["temperature", "platt", "beta", "isotonic of platt", "venn-abers", "vector-scaling", "dirichlet"]
)
def test_a_fitted_link_without_its_numbers_is_refused(name):
    link = ready(name)
    with pytest.raises(InputError, match=rf"^link {link.kind}: .* missing: fit it again$"):
        link_from_config(link.config(), {})


@pytest.mark.parametrize("make", [Quasibinary, Temperature, Platt, Beta, Isotonic, VennAbers, VectorScaling, Dirichlet])
def test_a_link_before_its_fit_comes_back_as_such(make):
    back = link_from_config(make().config(), {})
    assert type(back) is make
    assert not back.fitted


WITH_INVERSE = ["identity", "softmax", "sigmoid", "assume-negative", "spa", "spa with other numbers", "focal", "reweighted"]


@pytest.mark.parametrize("name", WITH_INVERSE)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_probabilities_that_rounding_left_outside_have_the_scores_of_0_and_1(name, dtype):
    link = ready(name)
    outside = torch.tensor([[1.0009766, -9.7e-4, 0.3, 1 + 1e-7]], dtype=dtype)
    scores = link.scores(outside)
    assert not scores.isnan().any()
    torch.testing.assert_close(scores, link.scores(torch.tensor([[1.0, 0.0, 0.3, 1.0]], dtype=dtype)))


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kind", [Platt, Beta, Isotonic, VennAbers, Temperature])
def test_a_fit_on_probabilities_takes_those_slightly_outside_as_0_and_1(kind, single):
    scores, target = data(single)
    probs = torch.softmax(scores, 1) if single else torch.sigmoid(scores)
    probs[:3, 0], probs[3:6, 1] = 1.0, 0.0
    outside = torch.where(probs == 1, 1.0004, torch.where(probs == 0, -4e-4, probs))
    expected, found = (kind(Identity()).fit(rows, target).probs(rows) for rows in (probs, outside))
    torch.testing.assert_close(found, expected)
