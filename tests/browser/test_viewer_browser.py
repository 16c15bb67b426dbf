"""The page of a stream in a real browser: pictures, the sphere, ids over time, scrubbing."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from armillary.vision import DirectionColors, DirectionSegmenter, StreamViewer, make_room_walk

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser")
expect = playwright.expect
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: make test-browser")
MARKUP = "</script><script>document.title = 'taken'</script>"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    walk = make_room_walk(12, width=96, height=72, random_state=0)
    stream, colors, viewer = DirectionSegmenter(camera=walk.camera), DirectionColors(), StreamViewer(f"Room {MARKUP}")
    for number, depth in enumerate(walk.depths):
        found = stream.step(depth)
        colors.add(found.ids, found.directions)
        viewer.add(depth, found, colors.table, f"name {number} {MARKUP}")
    path = tmp_path_factory.mktemp("viewer") / "stream.html"
    viewer.write(path, colors.table)
    return path


@pytest.fixture
def page(page_file):
    complaints = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1200, "height": 900})
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
        tab.goto(page_file.as_uri())
        yield tab
        browser.close()
    assert complaints == []


def inked(page, canvas):
    """How many pixels of a canvas are drawn."""
    return page.evaluate(
        f"() => {{ const c = document.getElementById('{canvas}');"
        "const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "return data.filter((v, i) => i % 4 == 3 && v).length }"
    )


def test_the_stream_is_shown_and_scrubbed(page):
    assert page.title() == "Segmented stream"
    expect(page.locator("#lead")).to_contain_text("12 frames")
    expect(page.locator("#place")).to_contain_text("frame 0 (name 0")
    first = page.get_attribute("#labels", "src")
    assert page.evaluate("() => document.getElementById('labels').naturalWidth") == 96
    assert inked(page, "sphere") > 1000
    assert inked(page, "shares") > 100_000
    page.locator("#frame").fill("7")
    expect(page.locator("#place")).to_contain_text("frame 7 (name 7")
    assert page.get_attribute("#labels", "src") != first
    assert page.locator("#ids tr").count() >= 2
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#place")).to_contain_text("frame 8")


def test_it_plays_and_jumps(page):
    page.click("#play")
    expect(page.locator("#play")).to_have_text("Pause")
    expect(page.locator("#place")).not_to_contain_text("frame 0")
    page.click("#play")
    box = page.locator("#shares").bounding_box()
    page.mouse.click(box["x"] + box["width"] - 3, box["y"] + 20)
    expect(page.locator("#place")).to_contain_text("frame 11")


def test_the_sphere_is_turned_by_dragging(page):
    before = page.evaluate("() => document.getElementById('sphere').toDataURL()")
    box = page.locator("#sphere").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 180, box["y"] + 130)
    page.mouse.up()
    assert page.evaluate("() => document.getElementById('sphere').toDataURL()") != before


def test_long_streams_are_thinned_and_events_are_kept():
    viewer = StreamViewer(most_frames=4)
    stream = DirectionSegmenter(drift_concentration=10.0)
    wall, floor = np.tile([0.0, 0.0, -1.0], (4, 6, 1)), np.tile([0.0, -1.0, 0.0], (4, 6, 1))
    for number in range(13):
        image = np.vstack([wall, floor]) if number in (0, 7) else np.vstack([wall, wall])
        viewer.add(image, stream.step(image))
    assert len(viewer._frames) <= 4
    assert viewer._frames[0]["births"] == [0, 1]
    assert sum(len(line["revivals"]) for line in viewer._frames) == 1
