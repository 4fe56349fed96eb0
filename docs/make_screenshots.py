"""The screenshots of the identification page: ``python docs/make_screenshots.py``, a few minutes on two cores.

Draws a folder of pictures of a small garden, trains a classifier on it, serves it on a free port and photographs the page in
the Chromium of the system.
"""

import shutil
import socket
import tempfile
import threading
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import shortlist as sl
from shortlist.data import Flora
from shortlist.data.dataset import TRAIN
from shortlist.web import Identifier, Site, VoteStore, make_app
from shortlist.web.opening import RunData, open_references, suspected_rows

IMAGES = Path(__file__).parent / "images"
GARDEN = Flora(species=14, genera=5, seed=1)
ROWS, SIDE = 1_500, 160
ASKED = 12  # photographs that are tried until one has a set of two or three


def draw_folder(folder: Path, rows: int, seed: int) -> list[Path]:
    """Pictures in one subfolder per species."""
    images, labels, _ = GARDEN.specimens(rows, seed=seed, size=SIDE)
    paths = []
    for number, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        path = folder / GARDEN.classes[label] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(path, quality=90)
        paths.append(path)
    return paths


def made_site(folder: Path) -> Site:
    """A classifier of the folder, with its references and votes."""
    data = f"folders:{folder / 'garden'},superclass=first-word"
    settings = {"method": "cross-entropy", "rule": "lac:0.1", "backbone": "plain-16-32-64", "size": 48, "epochs": 6, "lr": 0.05}
    run = sl.train(data, folder=folder / "run", report=False, **settings)
    rows = RunData.of(run)
    compared = open_references(run.classifier, rows.splits[TRAIN], folder / "references")
    suspected, held_out = suspected_rows(run, run.classifier, rows)
    identifier = Identifier(run.classifier, compared.references)
    votes = VoteStore(folder / "votes.sqlite")
    return Site(identifier, votes, "garden", pictures=compared.pictures, suspected=suspected, held_out=held_out)


def ask(page: Page, address: str, photographs: list[Path]) -> None:
    """The answer to the first photograph whose set has two or three species."""
    for path in photographs:
        page.goto(address)
        page.set_input_files("#images", str(path))
        page.click("#identify")
        page.wait_for_selector("#answer:not([hidden])")
        if page.locator("#set .candidate").count() in (2, 3):
            page.wait_for_load_state("networkidle")
            return


def photograph(address: str, photographs: list[Path]) -> None:
    """The page at three widths."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, width, height, scheme in (("identify", 1100, 980, "light"), ("identify-phone", 390, 844, "dark")):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            ask(page, address, photographs)
            page.screenshot(path=IMAGES / f"{name}.png", full_page=False)
            _fewer_colours(IMAGES / f"{name}.png")
        browser.close()


def _fewer_colours(path: Path) -> None:
    """A palette keeps screenshots small."""
    Image.open(path).convert("RGB").quantize(200).save(path, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as place, socket.create_server(("127.0.0.1", 0)) as bound:
        folder = Path(place)
        draw_folder(folder / "garden", ROWS, seed=1)
        site = made_site(folder)
        server = uvicorn.Server(uvicorn.Config(make_app(site), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        photograph(f"http://localhost:{bound.getsockname()[1]}", draw_folder(folder / "new", ASKED, seed=2))
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
