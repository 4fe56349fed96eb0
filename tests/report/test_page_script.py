"""The script of the table of classes, in a real browser where there is one: sorting, filtering, more rows, CSV."""

import csv
import io
import json
import re
import shutil
import subprocess

import pytest
import torch

from shortlist import Predictions
from shortlist.report import ClassTable, evaluate, render
from shortlist.sets import threshold

BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
NAMES = [f'species "{n}", <b>' if n == 7 else f"species {n:02}" for n in range(80)]
STEPS = """
const out = {}, box = document.querySelector(".classes"), head = () => [...box.querySelectorAll("th button")];
const column = n => [...box.querySelectorAll("tbody tr")].map(row => row.cells[n].textContent);
out.first = column(0); out.count = box.querySelector(".count").textContent;
box.querySelector(".more").click(); out.more = column(0).length;
head()[0].click(); out.named = column(0).slice(0, 3);
head()[0].click(); out.backwards = column(0).slice(0, 3);
head()[1].click(); out.rows = column(1).map(Number); out.sorted = box.querySelectorAll("th")[1].getAttribute("aria-sort");
const filter = box.querySelector(".filter");
filter.value = "SPECIES 4"; filter.dispatchEvent(new Event("input")); out.filtered = column(0).sort();
filter.value = "<b>"; filter.dispatchEvent(new Event("input"));
out.text = column(0); out.bold = box.querySelectorAll("b").length;
const make = URL.createObjectURL;
const done = text => { out.csv = text; document.title = JSON.stringify(out); };
URL.createObjectURL = blob => { blob.text().then(done); return make(blob); };
HTMLAnchorElement.prototype.click = () => {};
box.querySelector(".csv").click();
"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs a browser")
def test_the_table_sorts_filters_and_is_written_as_csv(tmp_path):
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(600, 80, generator=generator)
    target = torch.multinomial(scores.softmax(1), 1, generator=generator).squeeze(1)
    evaluation = evaluate(Predictions(scores, target, NAMES, "softmax"), rule=threshold(0.2))
    table = ClassTable([evaluation])
    page = re.sub(r"<meta http-equiv[^>]*>", "", render(evaluation))  # the policy would stop the steps below, as it should
    (tmp_path / "page.html").write_text(page.replace("</body>", f"<script>{STEPS}</script></body>"), encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    options = [f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "page.html").as_uri()]
    shown = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=True).stdout
    title = re.search(r"<title>(.*?)</title>", shown, re.DOTALL).group(1)
    out = json.loads(title.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert out["first"] == [NAMES[label] for label in table.order()[:12]]
    assert out["count"] == "12 of 80 classes"
    assert out["more"] == 62
    assert out["named"] == [NAMES[7], "species 00", "species 01"]
    assert out["backwards"][0] == "species 79"
    assert out["rows"] == sorted(out["rows"], reverse=True)
    assert out["sorted"] == "descending"
    assert out["filtered"] == [f"species {n}" for n in range(40, 50)]
    assert out["text"] == [NAMES[7]]
    assert out["bold"] == 0
    rows = list(csv.reader(io.StringIO(out["csv"])))
    assert rows[0] == list(table.table().columns)
    assert [row[0] for row in rows[1:]] == NAMES
    assert [float(row[2]) if row[2] else None for row in rows[1:]] == pytest.approx(
        [None if value != value else value for value in (row[2] for row in table.table().rows)], rel=1e-4
    )
