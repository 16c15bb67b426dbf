"""The report's lists, names, map, levels and downloads in a real browser."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from armillary.curation import CurationPlan, curate
from armillary.datasets import make_vmf_mixture
from armillary.report import ReportData, write_report
from armillary.report.curation import write_curation_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser")
expect = playwright.expect
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: make test-browser")

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
N_ROWS, N_CLUSTERS = 400, 6
WORDS = ["lost cards", "exchange rates", "cash machines", "refunds", "new phones", "<b>bold</b>"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page with everything: names, outliers, membership, levels, a flat map, pictures, ids and texts."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("report")
    X, labels, _ = make_vmf_mixture(N_ROWS, 12, N_CLUSTERS, concentration=60.0, min_angle=0.9, random_state=0)
    labels = labels.copy()
    labels[:9] = -1
    Image.new("RGB", (300, 200), (200, 30, 30)).save(folder / "red.png")
    data = ReportData(
        X.astype(np.float32),
        labels,
        ids=[f"id-{row}" for row in range(N_ROWS)],
        texts=[f"=SUM({row}) says, row {row}" for row in range(N_ROWS)],
        names=dict(enumerate(WORDS)),
        membership=np.linspace(0.0, 1.0, N_ROWS),
        levels={"coarse": labels // 3, "fine": labels * 2 + (np.arange(N_ROWS) % 2)},
        map=X[:, :2],
        images=[folder / "red.png" if row % 2 else "" for row in range(N_ROWS)],
    )
    write_report(folder / "page.html", data)
    wide, kinds, _ = make_vmf_mixture(3000, 20, 200, concentration=80.0, random_state=1)
    write_report(folder / "many.html", ReportData(wide.astype(np.float32), kinds))
    return folder, labels


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, report):
    contexts, complaints = [], []

    def open_one(name="page", **options):
        context = browser.new_context(
            viewport=options.pop("viewport", {"width": 1280, "height": 900}), reduced_motion="reduce", **options
        )
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.goto(Path(report[0], f"{name}.html").as_uri())
        expect(page.locator("#stage")).to_have_attribute("data-milliseconds", re.compile("."))
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


def test_picking_a_cluster_lists_its_rows(open_page, report):
    page = open_page()
    assert page.locator("#listed").is_hidden()
    chip = page.locator("#legend .chip", has_text="refunds")
    chip.click()
    size = int((report[1] == 3).sum())
    items = page.locator("#row-list li")
    expect(items).to_have_count(20)
    assert re.fullmatch(r"id-\d+, [\d.]+°, membership [01]\.\d\d", items.first.locator("small").inner_text())
    angles = [float(text.split(", ")[1][:-1]) for text in items.locator("small").all_inner_texts()]
    assert angles == sorted(angles)
    page.locator("#more-rows").click()
    expect(items).to_have_count(min(size, 120))
    items.first.locator("button").click()
    expect(page.locator("#pinned")).to_contain_text("cluster 3 (refunds)")
    page.locator("#clear").click()
    assert page.locator("#listed").is_hidden()


def test_searching_lists_rows_and_clusters_by_name(open_page, report):
    page = open_page()
    page.locator("#search").fill("row 77")
    expect(page.locator("#row-list li")).to_have_count(1)
    assert "says, row 77" in page.locator("#row-list li").inner_text()
    page.locator("#search").fill("cash machines")
    expect(page.locator("#shown")).to_contain_text(f"{int((report[1] == 2).sum())} of {N_ROWS} rows")


def test_a_search_within_a_cluster_tells_of_the_others(open_page, report):
    page = open_page()
    page.locator("#legend .chip", has_text=WORDS[2]).first.click()
    page.locator("#search").fill("says, row 1")
    n_found = sum(f"row {row}".startswith("row 1") for row in range(N_ROWS))
    n_here = sum(f"row {row}".startswith("row 1") and report[1][row] == 2 for row in range(N_ROWS))
    said = f": {n_here} of {N_ROWS} rows drawn; {n_found - n_here} in other clusters"
    expect(page.locator("#shown")).to_contain_text(said)


def test_without_texts_a_part_of_a_name_finds_its_cluster(open_page, report):
    X = np.repeat(np.eye(4)[:3], 50, axis=0)
    named = {0: "lost cards", 1: "exchange rates", 2: "lost phones"}
    write_report(report[0] / "named.html", ReportData(X, np.repeat([0, 1, 2], 50), names=named))
    page = open_page("named")
    page.locator("#search").fill("lost")
    expect(page.locator("#shown")).to_contain_text("“lost”: 100 of 150 rows drawn")
    expect(page.locator("#more-rows")).to_have_text("Show 80 more")


def test_a_selection_can_be_downloaded(open_page, report, tmp_path):
    page = open_page()
    page.locator("#legend .chip", has_text="outliers").click()
    expect(page.locator("#download")).to_have_text("Download 9 rows as csv")
    with page.expect_download() as waiting:
        page.locator("#download").click()
    assert waiting.value.suggested_filename == "selection.csv"
    waiting.value.save_as(tmp_path / "selection.csv")
    with open(tmp_path / "selection.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [int(line["row"]) for line in lines] == list(range(9))
    assert lines[4] == {
        "row": "4", "id": "id-4", "text": "'=SUM(4) says, row 4", "cluster": "-1", "name": "", "degrees": "",
        "membership": "0.012",
    }  # fmt: skip


def test_names_are_on_chips_table_and_tip_and_are_words(open_page):
    page = open_page()
    for word in WORDS:
        assert page.locator("#legend .chip .words", has_text=word).count() == 1
        assert page.locator("#clusters-table th .words", has_text=word).count() == 1
    assert page.locator("#legend b", has_text="bold").count() == 0
    assert "The largest are" in page.locator(".headline").inner_text()


def test_the_flat_map_comes_and_goes(open_page):
    page = open_page()
    picture = "document.getElementById('points').toDataURL()"
    page.wait_for_timeout(100)
    globe = page.evaluate(picture)
    page.locator("#flat").click()
    page.wait_for_timeout(200)
    flat = page.evaluate(picture)
    assert flat != globe
    page.keyboard.press("Tab")
    page.locator("#marks").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(100)
    assert page.evaluate(picture) != flat  # moved aside
    page.locator("#flat").click()
    page.wait_for_timeout(200)
    assert page.evaluate(picture) == globe
    assert "of the ten rows nearest to a row" in page.locator("#flat-words").inner_text()


def test_levels_open_and_pick(open_page):
    page = open_page()
    groups = page.locator(".levels > li")
    assert groups.count() == 2
    groups.first.locator("summary").click()
    chip = groups.first.locator(".chip").first
    chip.click()
    assert page.locator("#legend .chip[aria-pressed=true]").count() == 1
    assert "falls into 2" in groups.first.inner_text()


def test_pictures_are_shown_in_lists(open_page):
    page = open_page()
    page.locator("#legend .chip", has_text="refunds").click()
    expect(page.locator("#row-list img").first).to_be_visible()
    assert page.locator("#row-list img").first.evaluate("image => image.naturalWidth") == 72


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_globe_is_as_dark_as_the_page(open_page, scheme):
    page = open_page(color_scheme=scheme)
    page.wait_for_timeout(100)

    def middle():
        return page.evaluate(
            """() => { const c = document.getElementById('ball');
            // a copy: reading a canvas again and again makes the browser complain
            const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', { willReadFrequently: true });
            copy.drawImage(c, 0, 0);
            return [...copy.getImageData(c.width / 2 + 9, c.height / 2 + 9, 1, 1).data].slice(0, 3); }"""
        )

    assert (sum(middle()) < 200) == (scheme == "dark")
    page.locator("#theme").click()
    page.wait_for_timeout(100)
    assert (sum(middle()) < 200) == (scheme == "light")


def test_two_hundred_clusters_have_lists_instead_of_hairlines(open_page):
    page = open_page("many")
    section = page.locator("#silhouettes")
    assert section.locator("svg").count() == 0
    assert section.locator("h3").all_inner_texts() == ["Largest", "Smallest", "Clearest", "Least clear"]
    assert section.locator("tbody tr").count() == 40
    assert page.locator("#similarity svg").count() == 1


def test_a_narrow_table_has_whole_names_and_a_word_on_each_number(open_page):
    page = open_page(viewport={"width": 390, "height": 844})
    line = page.locator("#clusters-table tbody tr").first
    for words in line.locator(".words").all():
        assert words.evaluate("one => one.scrollWidth <= one.clientWidth")  # nothing is cut
        assert words.bounding_box()["width"] > 60
    told = line.locator("td:not(.rows)").evaluate_all(
        "all => all.map(one => getComputedStyle(one, '::before').content)"
    )
    assert told == ['"Rows"', '"Share"', '"Half within"', '"Nearest other"', '"Silhouette"']
    wide = open_page().locator("#clusters-table tbody td").first
    assert wide.evaluate("one => getComputedStyle(one, '::before').content") == "none"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_has_the_list_below(open_page, scheme):
    page = open_page(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page.locator("#legend .chip").first.click()
    expect(page.locator("#row-list li").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_curation_needs_no_sideways_scrolling(browser, tmp_path, scheme):
    X, _, _ = make_vmf_mixture(N_ROWS, 12, N_CLUSTERS, concentration=60.0, random_state=0)
    X[300:] = X[:100]
    plan = CurationPlan(n_clusters=(2, 12), n_recall_rows=10)
    texts = [f"row {row} of a text that is longer than a narrow screen is wide" for row in range(N_ROWS)]
    curate(X, tmp_path / "out", plan, report=lambda path, found: write_curation_report(path, found, texts=texts))
    page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page.goto((tmp_path / "out" / "report.html").as_uri())
    expect(page.locator("#coverage table")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()
