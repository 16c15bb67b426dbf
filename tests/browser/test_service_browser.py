"""The live page in a real browser, against a real server: ids as they come, naming, merging, undo, restarts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser")
pytest.importorskip("fastapi", reason="the extra service is not installed")

from tests.service.making import people  # noqa: E402
from tests.service.running import Running  # noqa: E402

from armillary import Links  # noqa: E402
from armillary.client import Client  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: make test-browser")
expect = playwright.expect
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live") / "data"
    folder.mkdir()
    running = Running(folder)
    assert running.wait()
    yield running
    running.kill()


@pytest.fixture
def room(server, request):
    name = f"room-{abs(hash(request.node.name)) % 10**6}"
    with Client(server.url) as client:
        yield client.create(name)


@pytest.fixture
def open_page(browser, server, room):
    contexts, faults = [], []

    def open_one(**options):
        context = browser.new_context(viewport=options.pop("viewport", {"width": 1400, "height": 1000}), **options)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith((server.url, "blob:", "data:"))
                else faults.append(asked.url))  # fmt: skip
        page.goto(f"{server.url}/#collection={room.name}")
        expect(page.locator("#state")).to_have_text("live")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert faults == []


def shot(page, name):
    """Pictures to look at, where ARMILLARY_SCREENSHOTS names a folder."""
    folder = os.environ.get("ARMILLARY_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def test_a_new_id_is_seen_within_a_tenth_of_a_second(open_page, room):
    page = open_page()
    X = people(12, 4)
    ids = room.add(X[:1]).tolist()
    expect(page.locator("#ids li")).to_have_count(1)
    # the time from the answer's event on the wire to the line on the page, by the page's own clock
    page.evaluate(
        """() => { window.seen = []; new MutationObserver((all) => all.forEach((one) => one.addedNodes.forEach((line) =>
             window.seen.push([Number(line.dataset.id), Date.now()])))).observe(document.getElementById('ids'),
             { childList: true }); }"""
    )
    ids += room.add(X[1:]).tolist()
    expect(page.locator("#ids li")).to_have_count(4)
    born = {event["id"]: event["at"] for event in room.events() if event["kind"] == "born"}
    delays = [at / 1000.0 - born[number] for number, at in page.evaluate("window.seen")]
    assert sorted(set(ids)) == [0, 1, 2, 3]
    assert len(delays) == 3
    assert min(delays) >= -0.005
    assert np.median(delays) < float(os.environ.get("ARMILLARY_PAGE_SECONDS", "1.0")), delays


def test_ids_that_were_there_are_counted_once(open_page, room):
    room.add(people(60, 5))
    page = open_page()
    expect(page.locator("#events li")).to_have_count(5)
    assert page.locator("#n-ids").text_content() == "5"  # before it is read again, once a second


def test_naming_merging_and_undo(open_page, room):
    X = people(80, 4)
    room.add(X)
    page = open_page()
    page.locator("#ids li[data-id='2'] button").click()
    expect(page.locator("#one-title")).to_have_text("Id · #2")
    page.locator("#name").fill("Ann Example")
    page.locator("#naming button").click()
    expect(page.locator("#one-title")).to_have_text("Ann Example · #2")
    expect(page.locator("#ids li[data-id='2'] .who")).to_have_text("Ann Example · #2")
    page.locator("#merge-with").fill("3")
    page.locator("#merging button").click()
    expect(page.locator("#ids li")).to_have_count(3)
    expect(page.locator("#facts")).to_contain_text("#2, #3")
    page.locator("#undo").click()
    expect(page.locator("#ids li")).to_have_count(4)
    shot(page, "wide")
    page.locator("#ids li[data-id='1'] button").drag_to(page.locator("#ids li[data-id='0'] button"))
    expect(page.locator("#ids li")).to_have_count(3)
    expect(page.locator("#events")).to_contain_text("went into")
    assert room.current([1]).tolist() == [0]
    expect(page.locator("#one-title")).to_have_text("Id · #0")  # what was merged is shown once it is read
    page.locator("#forget").click()
    page.locator("#sure button[value='yes']").click()
    expect(page.locator("#one-title")).to_have_text("#0 was forgotten")
    assert room.current([0, 1, 2]).tolist() == [-1, -1, 2]


def test_corrections_are_taken_back_after_a_reload_from_the_history_and_in_their_collection(open_page, room, server):
    room.add(people(80, 4))
    with Client(server.url) as client:
        other = client.create(f"{room.name}-other")
        other.add(people(80, 4))
        other.name_id(0, "Not to be touched")
    page = open_page()
    page.locator("#ids li[data-id='2'] button").click()
    page.locator("#merge-with").fill("3")
    page.locator("#merging button").click()
    expect(page.locator("#ids li")).to_have_count(3)
    page.locator("#collection").select_option(other.name)
    page.locator("#ids li[data-id='0'] button").click()
    expect(page.locator("#one-title")).to_have_text("Not to be touched · #0")
    expect(page.locator("#undo")).to_be_disabled()  # what was done is of another collection
    page.locator("#history button", has_text="undo").click()  # but a history knows what can be taken back
    expect(page.locator("#one-title")).to_have_text("Id · #0")
    page.locator("#collection").select_option(room.name)
    page.reload()
    page.locator("#ids li[data-id='2'] button").click()
    page.locator("#undo").click()
    expect(page.locator("#ids li")).to_have_count(4)
    assert room.current([3]).tolist() == [3]


def test_thousands_of_ids_are_counted_shown_newest_first_and_found(open_page, room):
    generator = np.random.default_rng(3)
    room.add(generator.normal(size=(1500, 128)))
    room.name_id(7, "Seven")
    page = open_page()
    expect(page.locator("#n-ids")).to_have_text("1,500")
    expect(page.locator("#found")).to_contain_text("1,000 of 1,500")
    assert page.locator("#ids li").first.get_attribute("data-id") == "1499"
    room.add(generator.normal(size=(300, 128)))
    expect(page.locator("#n-ids")).to_have_text("1,800")
    expect(page.locator("#ids li").first).to_have_attribute("data-id", "1799")
    page.wait_for_timeout(1000)  # lists that were read again have them too
    expect(page.locator("#ids li")).to_have_count(1000)
    expect(page.locator("#ids li").first).to_have_attribute("data-id", "1799")
    shot(page, "many")
    page.locator("#find").fill("sev")
    expect(page.locator("#ids li")).to_have_count(1)
    expect(page.locator("#ids li .who")).to_have_text("Seven · #7")
    page.locator("#find").fill("nobody")
    expect(page.locator("#found")).to_have_text("None.")
    page.locator("#find").fill("")
    expect(page.locator("#ids li")).to_have_count(1000)


def test_hostile_words_are_only_words(open_page, room):
    room.add(people(20, 2))
    room.name_id(0, HOSTILE)
    room.set_meta(0, {"text": HOSTILE, HOSTILE: 1})
    page = open_page()
    page.locator("#ids li[data-id='0'] button").click()
    expect(page.locator("#meta")).to_contain_text("onerror")
    expect(page.locator("#one-title")).to_contain_text("<img src=x")
    page.wait_for_timeout(300)
    assert page.title() == "Armillary: identities"
    assert page.locator("main img[src='x']").count() == 0


def test_keyboard_dark_and_narrow(open_page, room):
    room.add(people(60, 5))
    page = open_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    expect(page.locator("#ids li")).to_have_count(5)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#ids li[data-id='4'] button").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#one-title")).to_have_text("Id · #4")
    page.locator("#name").focus()
    page.keyboard.type("By keys")
    page.keyboard.press("Enter")
    expect(page.locator("#one-title")).to_have_text("By keys · #4")
    before = page.evaluate("document.getElementById('map').toDataURL()")
    page.locator("#map").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.getElementById('map').toDataURL()") != before
    shot(page, "narrow-dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 29)"


def test_the_page_goes_on_after_the_server_was_killed(open_page, room, server):
    X = people(60, 3)
    room.add(X[:30])
    page = open_page()
    expect(page.locator("#ids li")).to_have_count(3)
    server.kill()
    expect(page.locator("#state")).to_have_text("connecting again")
    server.start()
    assert server.wait()
    expect(page.locator("#state")).to_have_text("live", timeout=30_000)
    fresh = people(10, 1, seed=9)
    assert room.add(X[30:]).tolist() == Links().fit_predict(X)[30:].tolist()
    room.add(fresh)
    expect(page.locator("#ids li")).to_have_count(4)


def test_who_is_forgotten_is_who_was_asked_about(open_page, room, server):
    room.add(people(80, 4))
    page = open_page()
    page.locator("#ids li[data-id='2'] button").click()
    page.locator("#forget").click()
    expect(page.locator("#sure-text")).to_contain_text("Forget Id · #2 for good?")
    room.merge(0, 2)  # by somebody else, while the question stands
    expect(page.locator("#one-title")).to_have_text("Id · #0")
    page.locator("#sure button[value='yes']").click()
    expect(page.locator("#said")).to_have_text("#2 went into #0 meanwhile. Nobody was forgotten: look at #0 first.")
    assert room.current([0, 1, 2, 3]).tolist() == [0, 1, 0, 3]
    with Client(server.url) as client:
        other = client.create(f"{room.name}-other")
        other.add(people(80, 4))
        page.locator("#ids li[data-id='3'] button").click()
        page.locator("#forget").click()
        expect(page.locator("#sure")).to_be_visible()
        client.ask("DELETE", f"/v1/collections/{room.name}")
        expect(page.locator("#sure")).to_be_hidden(timeout=15_000)  # the page went on to another collection
        assert other.current([0, 1, 2, 3]).tolist() == [0, 1, 2, 3]
        client.create(room.name)


def test_an_answer_that_comes_late_is_not_shown(open_page, room):
    room.add(people(80, 4))
    page = open_page()
    expect(page.locator("#ids li")).to_have_count(4)
    held = []
    page.route("**/ids/1", lambda route: held.append(route))
    page.locator("#ids li[data-id='1'] button").click()
    page.locator("#ids li[data-id='3'] button").click()
    expect(page.locator("#one-title")).to_have_text("Id · #3")
    for route in held:
        route.continue_()
    page.unroute("**/ids/1")
    page.wait_for_timeout(500)
    assert held
    expect(page.locator("#one-title")).to_have_text("Id · #3")


def test_a_list_under_the_pointer_keeps_its_lines(open_page, room):
    X = people(80, 4)
    room.add(X)
    page = open_page()
    page.locator("#ids li[data-id='2'] button").click()
    expect(page.locator("#nearest li")).to_have_count(3)
    before = page.locator("#nearest").text_content()
    page.locator("#nearest li").first.hover()
    room.forget(int(before.split("#")[1].split()[0]))
    expect(page.locator("#ids li")).to_have_count(3)
    page.wait_for_timeout(700)
    assert page.locator("#nearest").text_content() == before
    page.locator("h1").hover()
    room.name_id(2, "Two")
    expect(page.locator("#nearest li")).to_have_count(2)


def test_collections_that_could_not_be_opened_are_named(open_page, room):
    page = open_page()

    def with_damaged(route):
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "unopened": ["broken-one"]})

    page.route("**/v1/collections", with_damaged)
    expect(page.locator("#unopened")).to_be_hidden()
    page.reload()
    expect(page.locator("#unopened")).to_contain_text("broken-one")


def test_only_ids_of_this_collection_are_merged_by_a_drop(open_page, room):
    room.add(people(80, 4))
    page = open_page()
    expect(page.locator("#ids li")).to_have_count(4)
    for kind, text in (("text/plain", ""), ("text/plain", "1"), ("application/x-armillary-id", "another 1")):
        page.evaluate(
            """([kind, text]) => {
                 const given = new DataTransfer();
                 given.setData(kind, text);
                 const line = document.querySelector("#ids li[data-id='3']");
                 for (const name of ["dragover", "drop"])
                   line.dispatchEvent(new DragEvent(name, { dataTransfer: given, bubbles: true, cancelable: true }));
               }""",
            [kind, text],
        )
    page.wait_for_timeout(500)
    assert room.current([0, 1, 2, 3]).tolist() == [0, 1, 2, 3]
    page.locator("#ids li[data-id='2'] button").click()
    page.locator("#merge-with").fill("2")
    page.locator("#merging button").click()
    expect(page.locator("#said")).to_have_text("#2 is that id already. Merge it with another.")


def test_a_collection_that_was_made_anew_is_shown_as_it_is(open_page, room, server):
    room.add(people(80, 4))
    page = open_page()
    expect(page.locator("#events li")).to_have_count(4)
    with Client(server.url) as client:
        client.ask("DELETE", f"/v1/collections/{room.name}")
        anew = client.create(room.name)
        expect(page.locator("#ids li")).to_have_count(0, timeout=15_000)
        anew.add(people(40, 2))
    expect(page.locator("#ids li")).to_have_count(2)
    expect(page.locator("#events li")).to_have_count(2)
    expect(page.locator("#n-ids")).to_have_text("2")
