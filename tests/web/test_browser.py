"""The pages in a real browser: ask, compare, decide, review, search, errors; on a phone and in the dark; for everybody.

Chromium must be installed (``apt-get install chromium``). Where it is not, these tests are skipped, except in CI.
"""

import os
import shutil
import threading
import warnings

import numpy as np
import pytest
import uvicorn

from shortlist import Predictions
from shortlist.retrieval import Index
from shortlist.web.app import make_app
from shortlist.web.votes import Vote
from shortlist.web.watching import open_watch
from tests.web.site import NAMES, jpeg, made, squares

pytestmark = pytest.mark.slow
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = {"phone": 360, "tablet": 768, "desk": 1280}
RED, GREEN = (220, 40, 40), (40, 180, 60)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None and not os.environ.get("CI"):
        warnings.warn(pytest.PytestWarning("NO CHROMIUM: the pages are not tested; apt-get install chromium"), stacklevel=1)
        pytest.skip("no Chromium: the pages are not tested")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def served(tmp_path):
    """The site and its address, on a port of the loopback interface."""
    scores = Predictions(np.array([[2.0, -2.0], [-2.0, 2.0]]), classes=["fork", "knife"], link="sigmoid", ids=["<u>a</u>", "b"])
    index = Index.build(scores, tmp_path / "index")
    with made(tmp_path, index=index) as site:
        site.watching = open_watch(site.identifier.classifier, site.votes.path, lambda: None)
        server = uvicorn.Server(uvicorn.Config(make_app(site), "127.0.0.1", 0, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield site, f"http://localhost:{port}"
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def opened(browser, served):
    """A page, and what went wrong on it: errors of scripts, and requests to other hosts."""
    wrong, contexts = [], []

    def new(path="/", **options):
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        contexts.append(context)
        context.set_default_timeout(10_000)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if "Content Security" in message.text else None)
        page.on("request", lambda one: None if one.url.startswith((served[1], "blob:")) else wrong.append(one.url))
        page.goto(served[1] + path)
        return page

    yield new
    for context in contexts:
        context.close()
    assert wrong == []


def until(page, expression):
    """Wait until an expression is true; the policy of the pages forbids Playwright's own way, which evaluates text."""
    for _ in range(500):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"never true: {expression}")


def photograph(colour=RED, name="photo.jpg"):
    return {"name": name, "mimeType": "image/jpeg", "buffer": jpeg(colour, (80, 60))}


def ask(page, *colours):
    page.set_input_files("#images", [photograph(colour, f"{place}.jpg") for place, colour in enumerate(colours)])
    page.click("#identify")
    page.wait_for_selector("#answer:not([hidden])")


def test_a_photograph_gets_its_set_with_pictures_to_compare(opened):
    page = opened()
    ask(page, RED)
    first = page.locator("#set .candidate").first
    assert NAMES[0] in first.inner_text()  # a name is text, whatever it looks like
    assert page.locator("b").count() == 0
    assert "%" in first.locator(".p").inner_text()
    assert "Rule lac:0.2" in page.inner_text("#guarantee")
    assert page.evaluate("document.activeElement.id") == "headline"
    images = first.locator(".strip img")
    assert images.count() >= 6
    until(page, "[...document.querySelectorAll('#set .strip img')].every(image => image.naturalWidth > 0)")
    assert not page.locator("#further .candidate").first.is_visible()
    page.click("#others summary")
    assert page.locator("#further .candidate").first.is_visible()


def test_the_larger_view_goes_from_picture_to_picture_by_keyboard(opened):
    page = opened()
    ask(page, RED)
    page.locator("#set .strip button").first.focus()
    page.keyboard.press("Enter")
    caption = page.locator("#viewer-caption")
    assert "1 of" in caption.inner_text()
    assert "A. <i>Painter</i>" in caption.inner_text()
    page.keyboard.press("ArrowRight")
    assert "2 of" in caption.inner_text()
    page.keyboard.press("Escape")
    assert not page.locator("#viewer").is_visible()


def test_several_photographs_are_one_question(opened):
    page = opened()
    ask(page, RED, RED, GREEN)
    assert page.locator("#previews img").count() == 3
    assert "one photograph" in page.inner_text("#guarantee")


def test_a_vote_needs_a_name_and_is_kept(opened, served):
    site, _ = served
    page = opened()
    ask(page, RED)
    page.locator("#set .choose").first.click()
    assert "name" in page.inner_text("#voted")
    assert site.votes.number_of_votes() == 0
    page.fill("#voter", "Ann")
    page.locator("#set .choose").first.click()
    page.wait_for_selector("#voted.good")
    assert site.votes.observations()[0].votes == [Vote("Ann", "label", NAMES[0], author=True)]
    assert page.locator(".candidate.chosen").count() == 1
    page.click("[data-choice=unsure]")
    until(page, "document.querySelector('#voted').textContent.includes('review')")
    assert site.votes.observations()[0].votes == [Vote("Ann", "unsure", author=True)]


def test_a_vote_works_after_the_answer_was_forgotten_and_the_server_started_again(opened, served):
    site, _ = served
    page = opened()
    ask(page, RED)
    page.fill("#voter", "Ann")
    site.recent._answers.clear()
    object.__setattr__(site.access, "token", "another")
    page.evaluate("sessionStorage.clear()")
    page.fill("#voter", "Ann")
    page.click("[data-choice=none]")
    page.wait_for_selector("#voted.good")
    assert site.votes.number_of_votes() == 1


def test_what_is_no_picture_is_told_in_a_sentence(opened):
    page = opened()
    page.set_input_files("#images", [{"name": "x.jpg", "mimeType": "image/jpeg", "buffer": b"no picture"}])
    page.click("#identify")
    page.wait_for_selector("#error:not([hidden])")
    assert "Photograph 1: not a picture" in page.inner_text("#error")
    assert not page.locator("#answer").is_visible()
    ask(page, GREEN)  # and then it works
    assert not page.locator("#error").is_visible()


def test_the_review_is_done_by_keyboard(opened, served):
    site, _ = served
    page = opened("/review")
    page.wait_for_selector("#set .candidate")
    assert "looks much more like" in page.inner_text("#reason")
    until(page, "document.querySelector('#previews img').naturalWidth > 0")
    first = page.inner_text("#status")
    page.keyboard.press("n")
    assert "name" in page.inner_text("#voted")
    page.fill("#voter", "Bob")
    page.locator("#voter").blur()
    page.wait_for_selector("#set .candidate")
    page.wait_for_load_state("networkidle")
    page.keyboard.press("1")
    until(page, f"document.querySelector('#status').textContent !== {first!r}")
    [kept] = site.votes.observations()
    assert (kept.votes[0].voter, kept.votes[0].choice) == ("Bob", "label")
    page.wait_for_load_state("networkidle")
    page.keyboard.press("s")
    until(page, "document.querySelector('#status').textContent.includes('Nothing needs eyes')")


def test_the_review_says_whether_the_photographs_have_changed(opened, served):
    site, _ = served
    page = opened()
    ask(page, RED)
    page = opened("/review")
    page.wait_for_selector("#watch:not([hidden])")
    assert "Nothing has changed on 1 rows" in page.inner_text("#watch")
    assert page.locator("#watch .note").count() == 0
    model = site.identifier.classifier
    for images in (squares(120, seed=8)[0], squares(120, seed=9)[0] // 3 + 80):
        for scores in model.predictions(images).scores:
            site.watching.asked(scores)
    site.watching.settle()
    page = opened("/review", viewport={"width": 360, "height": 800})
    page.wait_for_selector("#watch .note")
    assert "of the photographs of 20" in page.inner_text("#watch")
    assert "fit the rule again" in page.inner_text("#watch")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_search_finds_rows_and_explains_errors(opened):
    page = opened("/search?q=fork")
    page.wait_for_selector("#found li")
    assert "<u>a</u>" in page.inner_text("#found li:first-child")
    page.fill("#query", "fork and spoon")
    page.keyboard.press("Enter")
    page.wait_for_selector("#error:not([hidden])")
    assert "spoon" in page.inner_text("#error")
    assert page.locator("#found li").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_finding_of_axe(opened, scheme):
    from axe_playwright_python.sync_playwright import Axe

    for path in ("/", "/review", "/search?q=fork"):
        page = opened(path, color_scheme=scheme, reduced_motion="reduce")
        if path == "/":
            ask(page, RED)
            page.click("#others summary")
        else:
            page.wait_for_selector("#set .candidate, #found li")
        found = Axe().run(page).response["violations"]
        serious = [
            (one["id"], [node["html"] for node in one["nodes"]][:3])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []


@pytest.mark.parametrize("name", WIDTHS)
def test_nothing_is_cut_off_at_three_widths(opened, tmp_path, name):
    page = opened(viewport={"width": WIDTHS[name], "height": 800}, reduced_motion="reduce")
    ask(page, RED, GREEN)
    page.click("#others summary")
    page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[name]
    small = page.evaluate(
        "[...document.querySelectorAll('button')].filter(b => b.offsetParent && b.offsetHeight < 44).map(b => b.textContent)"
    )
    assert small == []


def test_the_review_says_why_nothing_is_watched(opened, served):
    site, _ = served
    watching, site.watching = site.watching, None
    site.unwatched = "the photographs are not watched: this rule has a gate"
    try:
        page = opened("/review")
        page.wait_for_selector("#watch .note")
        assert "The photographs are not watched: this rule has a gate" in page.inner_text("#watch")
    finally:
        site.watching, site.unwatched = watching, None
