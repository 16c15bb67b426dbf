"""The report in a real browser: headless Chromium, driven by Playwright. `make test-browser` installs both."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from armillary.datasets import make_vmf_mixture
from armillary.report import ReportData, write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser")
expect = playwright.expect
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: make test-browser")

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE = {"width": 1280, "height": 900}
N_ROWS, N_CLUSTERS = 600, 5
MARKUP = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The pages: a sphere with texts, rows of many dimensions, and nothing but noise."""
    folder = tmp_path_factory.mktemp("reports")
    X, labels, _ = make_vmf_mixture(N_ROWS, 3, N_CLUSTERS, concentration=80.0, min_angle=0.8, random_state=0)
    labels = labels.copy()
    labels[:7] = -1
    texts = [f"{MARKUP} sentence {row} of kind {label}" for row, label in enumerate(labels)]
    sphere = ReportData(
        X,
        labels,
        title=f"Caps {MARKUP}",
        ids=[f"id-{row}" for row in range(N_ROWS)],
        texts=texts,
        truth=[f"class {label} {MARKUP}" for label in labels],
        timings={"fitting": 1.5},
        command=f"armillary cluster '{MARKUP}'",
        snippet="import armillary\nprint(armillary.__version__)",
        notes=[MARKUP],
    )
    write_report(folder / "sphere.html", sphere)
    wide, kinds, _ = make_vmf_mixture(800, 40, 45, concentration=60.0, random_state=1)
    write_report(folder / "wide.html", ReportData(wide.astype(np.float32), kinds, title="Many dimensions"))
    write_report(folder / "noise.html", ReportData(X[:20], np.full(20, -1), title="Noise"))
    return folder


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, reports):
    """Opens a report; fails at the end if the page complained, or asked for anything outside itself."""
    contexts, complaints = [], []

    def open_one(name="sphere", **options):
        context = browser.new_context(viewport=options.pop("viewport", WIDE), reduced_motion="reduce", **options)
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: complaints.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
        )
        page.goto((Path(reports) / f"{name}.html").as_uri())
        if options.get("java_script_enabled", True):
            expect(page.locator("#stage")).to_have_attribute("data-milliseconds", re.compile("."))
        return page

    open_one.complaints = complaints
    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


def settle(page):
    """Wait until what was asked for is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def pixels(page):
    """The dots as bytes, and how many of the canvas's pixels are drawn on."""
    settle(page)
    return page.evaluate(
        """() => {
            const canvas = document.getElementById('points');
            // a copy: reading a canvas again and again makes the browser complain
            const { width, height } = canvas;
            const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            const bytes = copy.getImageData(0, 0, width, height).data;
            const counts = {};
            let sum = 0, drawn = 0;
            for (let i = 0; i < bytes.length; i += 4) {
                if (!bytes[i + 3]) continue;
                drawn += 1;
                sum = (sum * 31 + i + bytes[i] * 7 + bytes[i + 1] * 3 + bytes[i + 2]) % 4294967291;
                if (bytes[i + 3] === 255) {
                    const key = [bytes[i], bytes[i + 1], bytes[i + 2]].join();
                    counts[key] = (counts[key] || 0) + 1;
                }
            }
            return { sum, drawn, counts };
        }"""
    )


def drag(page, across, along):
    box = page.locator("#marks").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 6):
        page.mouse.move(x + across * step / 5, y + along * step / 5)
    page.mouse.up()


# ----------------------------------------------------------------------------------------------------------- render


@pytest.mark.parametrize("name", ["sphere", "wide", "noise"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_renders(open_page, name, scheme):
    page = open_page(name, color_scheme=scheme)
    assert page.locator("h1").is_visible()
    assert page.locator("#stage").is_visible()
    assert not page.locator("img.still").is_visible()
    assert pixels(page)["drawn"] > 50
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in background[4:-1].split(",")[:3])
    assert (brightness > 600) == (scheme == "light")


def test_words_of_the_user_are_words(open_page):
    page = open_page()
    assert page.title() == f"Caps {MARKUP}"
    assert page.locator("h1").inner_text() == f"Caps {MARKUP}"
    assert page.locator("main script, main img:not(.still), header script, header img").count() == 0
    assert MARKUP in page.locator("#command").inner_text()
    assert page.locator("td.rows li").first.inner_text().startswith("<script>")


def test_the_policy_lets_no_other_script_run(open_page, reports):
    text = (Path(reports) / "sphere.html").read_text(encoding="utf-8")
    assert "script-src 'sha256-" in text
    page = open_page()
    # an inline handler, as an injection would have it, is refused by the browser itself
    page.evaluate("window.addEventListener('securitypolicyviolation', () => { window.wasRefused = true; })")
    is_refused = page.evaluate(
        """async () => {
            const button = document.createElement('button');
            button.setAttribute('onclick', 'window.ran = true');
            document.body.append(button);
            button.click();
            await new Promise(done => setTimeout(done, 50));
            return window.wasRefused === true && window.ran === undefined;
        }"""
    )
    assert is_refused
    (complaint,) = open_page.complaints
    assert "Content Security Policy" in complaint
    open_page.complaints.clear()


# ------------------------------------------------------------------------------------------------------- the sphere


@pytest.mark.parametrize("name", ["sphere", "wide"])
def test_the_sphere_turns_with_the_mouse(open_page, name):
    page = open_page(name)
    before = pixels(page)
    drag(page, 150, 40)
    after = pixels(page)
    assert after["sum"] != before["sum"]
    page.locator("#reset").click()
    assert pixels(page)["sum"] == before["sum"]


def test_a_row_moves_as_far_as_the_pointer(open_page):
    page = open_page()
    # bring a row to the middle of the globe, grip it there and move it: the row stays under the pointer
    page.locator("td.rows li").first.click()
    said = page.locator("#pinned b").inner_text()
    assert said in page.locator("td.rows li").first.inner_text()
    settle(page)
    box = page.locator("#marks").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    drag(page, 0.1 * box["width"], 0.0)
    settle(page)
    radius = 0.46 * box["width"]
    page.mouse.move(x + radius * np.sin(0.1 * box["width"] / radius), y)
    expect(page.locator("#tip")).to_be_visible()
    assert page.locator("#tip b").inner_text() == said


def test_the_sphere_turns_and_zooms_with_keys(open_page):
    page = open_page()
    page.locator("#marks").focus()
    states = [pixels(page)["sum"]]
    for key in ("ArrowRight", "ArrowUp", "+", "-", "Home"):
        page.keyboard.press(key)
        states.append(pixels(page)["sum"])
    assert states[5] == states[0]  # Home goes back
    assert states[4] == states[2]  # minus undoes plus
    assert len(set(states[:4])) == 4


def test_hover_says_which_row_it_is(open_page):
    page = open_page()
    page.locator("td.rows li").first.click()  # brings a row to the middle
    page.mouse.move(5, 5)
    settle(page)
    box = page.locator("#marks").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#tip")).to_be_visible()
    lines = page.locator("#tip p").all_inner_texts()
    assert lines[0].startswith("id-")
    assert f"sentence {lines[0][3:]} of kind" in lines[1]
    assert lines[2].startswith("cluster ")
    assert "from its centre" in lines[2]
    assert lines[3].startswith("next: cluster ")
    page.mouse.move(2, 2)
    assert page.locator("#tip").is_hidden()


# ----------------------------------------------------------------------------------------------- filter, sort, words


def test_a_cluster_can_be_filtered(open_page):
    page = open_page()
    before = pixels(page)["counts"]
    chip = page.locator("#legend .chip").first
    chip.click()
    assert chip.get_attribute("aria-pressed") == "true"
    assert page.locator("#clusters-table tr.on").count() == 1
    size = int(chip.locator(".count").inner_text())
    name = chip.locator("b").inner_text()
    assert page.locator("#shown").inner_text() == f"Cluster {name}: {size} of {N_ROWS} rows drawn"
    after = pixels(page)["counts"]
    color = chip.locator(".swatch").evaluate("swatch => getComputedStyle(swatch).backgroundColor")
    own = ",".join(part.strip() for part in color[4:-1].split(","))
    strong = [key for key in after if key in before and key != own and after[key] > 20]
    # the colours of other clusters are gone from the near side
    palette = {
        ",".join(part.strip() for part in text[4:-1].split(","))
        for text in page.locator("#legend .swatch").evaluate_all(
            "all => all.map(swatch => getComputedStyle(swatch).backgroundColor)"
        )
    }
    assert not [key for key in strong if key in palette]
    page.locator("#clear").click()
    assert page.locator("#shown").inner_text() == ""
    assert pixels(page)["counts"] == before


def test_table_lines_and_the_sphere_filter_as_well(open_page):
    page = open_page()
    page.locator("#clusters-table tbody tr").nth(1).locator("td").first.click()
    page.locator("#clusters-table tbody tr").nth(2).locator("th button").press("Enter")
    assert page.locator("#legend .chip[aria-pressed=true]").count() == 2
    assert page.locator("#shown").inner_text().startswith("Clusters ")
    page.locator("#marks").focus()
    page.keyboard.press("Escape")
    assert page.locator("#legend .chip[aria-pressed=true]").count() == 0


def test_search_finds_rows_and_clusters(open_page):
    page = open_page()
    page.locator("#search").fill("sentence 77 of")
    expect(page.locator("#shown")).not_to_be_empty()
    assert page.locator("#shown").inner_text() == f"“sentence 77 of”: 1 of {N_ROWS} rows drawn"
    assert page.locator("#clusters-table tbody tr:visible").count() == 1
    page.locator("#search").fill("ID-12")
    expect(page.locator("#shown")).to_contain_text("id-12")
    assert f"11 of {N_ROWS}" in page.locator("#shown").inner_text()  # 12, and 120 to 129
    page.locator("#search").fill("cluster 3")
    expect(page.locator("#shown")).to_contain_text("cluster 3")
    line = page.locator("#clusters-table tbody tr:visible")
    assert line.count() == 1
    assert line.locator("th").inner_text().strip() == "3"
    page.locator("#search").fill("nowhere to be found")
    expect(page.locator("#shown")).to_contain_text("nowhere")
    assert page.locator("#clusters-table tbody tr:visible").count() == 0


def test_the_table_sorts(open_page):
    page = open_page()

    def column(number):
        return page.evaluate(
            """number => [...document.querySelectorAll('#clusters-table tbody tr')]
                .map(line => Number(line.cells[number].dataset.value))""",
            number,
        )

    sizes = column(1)
    assert sizes == sorted(sizes, reverse=True)
    for number in (0, 3, 5):
        head = page.locator("#clusters-table thead th").nth(number)
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert column(number) == sorted(column(number), reverse=True)
        head.locator("button").press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert column(number) == sorted(column(number))
    assert page.locator("th[aria-sort]").count() == 1


def test_long_tables_begin_short(open_page):
    page = open_page("wide")
    n_all = page.locator("#clusters-table tbody tr").count()
    assert n_all == 45
    assert page.locator("#clusters-table tbody tr:visible").count() == 20
    page.get_by_role("button", name="Show all 45 clusters").click()
    assert page.locator("#clusters-table tbody tr:visible").count() == 45


def test_the_matrix_names_its_pairs(open_page):
    page = open_page()
    image = page.locator("#similarity svg image").first
    image.scroll_into_view_if_needed()
    box = image.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 1.5 / N_CLUSTERS, box["y"] + box["height"] * 0.5 / N_CLUSTERS)
    said = page.locator("#tip").inner_text()
    # the angle written in the cell
    names = page.evaluate("JSON.parse(document.getElementById('data').textContent).matrix.order")
    assert said.startswith(f"cluster {names[0]} and cluster {names[1]}: ")
    page.mouse.click(box["x"] + box["width"] * 1.5 / N_CLUSTERS, box["y"] + box["height"] * 0.5 / N_CLUSTERS)
    assert page.locator("#legend .chip[aria-pressed=true]").count() == 2


def test_copy_buttons(browser, open_page):
    page = open_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#again .code button").nth(1).click()
    expect(page.locator("#again .code button").nth(1)).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "import armillary\nprint(armillary.__version__)"


# ------------------------------------------------------------------------------------------------- light, dark, plain


def test_light_and_dark_can_be_switched(open_page):
    page = open_page()

    def background():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = background()
    button = page.locator("#theme")
    assert button.inner_text() == "Dark"
    button.click()
    assert button.inner_text() == "Light"
    assert background() != light
    button.click()
    assert background() == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_have_contrast(open_page, scheme):
    """WCAG AA: 4.5 to 1, for words of the page and of its charts."""
    page = open_page(color_scheme=scheme)
    ratios = page.evaluate(
        """() => {
            const light = (text) => {
                const parts = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255);
                const [r, g, b] = parts.map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const behind = (node) => {
                for (let at = node; at; at = at.parentElement) {
                    const color = getComputedStyle(at).backgroundColor;
                    if (!/, 0\\)$|transparent/.test(color)) return light(color);
                }
                return 1;
            };
            const nodes = document.querySelectorAll('h1, .headline, .notes li, dt, dd, nav a, .hint, td, th, small, '
                + 'figcaption, pre, .chip b, .chip .count, footer, #sizes text, #silhouettes text');
            return [...nodes].map(node => {
                const style = getComputedStyle(node);
                const [a, b] = [light(node.tagName === 'text' ? style.fill : style.color), behind(node)];
                return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.tagName, node.className.toString()];
            });
        }"""
    )
    assert len(ratios) > 50
    assert [entry for entry in ratios if entry[0] < 4.5] == []


def test_without_javascript_there_are_pictures_and_tables(open_page):
    page = open_page(java_script_enabled=False)
    still = page.locator("img.still")
    assert still.is_visible()
    assert still.bounding_box()["width"] > 600
    assert "centres" in still.get_attribute("alt")
    assert page.locator("#clusters-table tbody tr:visible").count() == N_CLUSTERS
    for chart in ("#similarity svg", "#silhouettes svg"):
        assert page.locator(chart).first.is_visible()
    assert page.locator("#stage, .live").first.is_hidden()
    assert page.locator("button:visible").count() == 0


def test_a_narrow_screen_needs_no_sideways_scrolling(open_page):
    page = open_page(viewport={"width": 360, "height": 740}, device_scale_factor=2, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#stage").bounding_box()["width"] > 250


def test_everything_can_be_reached_by_keys(open_page):
    page = open_page()
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"theme", "marks", "nearer", "search", "chip"} <= reached


@pytest.mark.parametrize(("name", "n_clusters"), [("wide", 45), ("sphere", N_CLUSTERS)])
def test_paper_is_light_and_has_the_whole_table(open_page, name, n_clusters):
    page = open_page(name, color_scheme="dark")
    page.locator("#theme").click()  # light, and
    page.locator("#theme").click()  # dark again, by hand
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 252, 253)"
    assert page.locator("#clusters-table tbody tr:visible").count() == n_clusters
    assert page.locator("nav").is_hidden()
    page.set_viewport_size({"width": 794, "height": 1123})  # A4
    assert page.evaluate("document.documentElement.scrollWidth") <= 794


def test_a_hundred_thousand_rows(browser, tmp_path):
    X, labels, _ = make_vmf_mixture(100_000, 3, 40, concentration=150.0, random_state=0)
    path = tmp_path / "large.html"
    texts = [f"row {row}: words number {row % 977} and {row % 131}" for row in range(len(X))]
    write_report(path, ReportData(X.astype(np.float32), labels, texts=texts))
    assert path.stat().st_size < 4e6
    context = browser.new_context(viewport=WIDE)
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    expect(page.locator("#stage")).to_have_attribute("data-milliseconds", re.compile("."))
    before = pixels(page)
    drag(page, 120, 30)
    assert pixels(page)["sum"] != before["sum"]
    page.locator("#search").fill("number 500 and")
    expect(page.locator("#shown")).to_contain_text("rows drawn")
    assert complaints == []
    context.close()
