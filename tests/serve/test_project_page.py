"""A project's page in a real browser: corrected by keyboard, by two at once, learned from."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import (
    DEADLINE_MS,
    PHONE,
    Visit,
    needs_chromium,
    open_item,
    opened_browser,
    playwright,
    violations,
    visit_project,
)
from running_server import ask
from tiny_project import Tales

from arborvox.config.choices import Proposal, values_of

pytestmark = needs_chromium
PAGE = Path(__file__).parents[2] / "arborvox" / "serve" / "page"


@pytest.fixture(scope="module")
def tales(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tales]:
    made = Tales(tmp_path_factory.mktemp("tales"))
    yield made
    assert made.server.stop() == 0, made.server.log


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as made:
        yield made


def wait_for_other(page: Any, item: str) -> None:
    page.wait_for_function(
        "item => !document.getElementById('item-facts').textContent.startsWith(`${item} `)",
        arg=item,
    )


def write_and_send(page: Any, text: str) -> str:
    """Type a text over the draft and send it, by keyboard alone; return what it was for."""
    item = open_item(page)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    wait_for_other(page, item)
    return item


def test_all_words_of_the_pages_are_there_and_used() -> None:
    words = json.loads((PAGE / "words.json").read_text(encoding="utf-8"))
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in PAGE.iterdir()
        if path.suffix in (".js", ".html")
    )
    asked = set(re.findall(r'data-word="(\w+)"|\bt\(\s*"(\w+)"', sources))
    named = {first or second for first, second in asked}
    assert named <= set(words)
    # Of a part that varies.
    made = ("state_", "is_", "change_", "stage_", "verdict_", "withdraw_", "propose_")
    assert {f"propose_{way}" for way in values_of(Proposal)} <= set(words)
    unused = {
        word
        for word in words
        if f'"{word}"' not in sources and not word.startswith(made) and word not in ("lang", "dir")
    }
    assert unused <= {"uploading", "drop_now", "done"}


def test_ten_are_corrected_by_keyboard_and_learned_from(browser: Any, tales: Tales) -> None:
    visit = visit_project(browser, tales.server)
    page, project = visit.page, tales.project
    assert page.evaluate("document.activeElement.id") == "text"
    assert violations(page) == []
    assert "drawn by lot" in page.inner_text("#proposal")
    visit.look("project")
    # The sound plays by itself, pauses and plays again, without leaving the text.
    sound = "document.getElementById('sound')"
    page.wait_for_function(f"() => {sound}.currentTime > 0")
    page.keyboard.press("F2")
    page.keyboard.press("Escape")
    page.wait_for_function(f"() => {sound}.paused")
    page.keyboard.press("F4")
    page.wait_for_function(f"() => !{sound}.paused")
    done = []
    for number in range(10):
        item = open_item(page)
        if number == 4:  # in the middle of a text the tab is closed, or the page loaded anew
            page.keyboard.press("Control+a")
            page.keyboard.type("half a te")
            page.reload()
            page.wait_for_selector("#item:not([hidden])")
            assert open_item(page) == item
            assert page.input_value("#text") == "half a te"
            assert project.item(item).state == "draft"
            visit.look("project-draft")
        done.append(write_and_send(page, tales.said[item]))
    assert len(set(done)) == 10
    assert {project.item(item).text == tales.said[item] for item in done} == {True}
    assert len(project.items(state="confirmed")) == 10
    # What was done last is taken back, and done again.
    page.keyboard.press("F9")
    page.wait_for_function("id => document.body.innerText.includes(id)", arg=done[-1])
    assert project.item(done[-1]).state == "draft"
    assert open_item(page) == done[-1]
    write_and_send(page, tales.said[done[-1]])
    assert [change.kind for change in project.history(done[-1])] == ["save", "undo", "save"]
    # One is skipped, and found again by its state.
    item = open_item(page)
    page.keyboard.press("F8")
    wait_for_other(page, item)
    assert project.item(item).state == "skipped"
    page.select_option("#state", "skipped")
    playwright.expect(page.locator("#items li")).to_have_count(1)
    learn_and_go_back(visit, tales)
    visit.leave()


def learn_and_go_back(visit: Visit, tales: Tales) -> None:
    page, project = visit.page, tales.project
    assert page.locator("#go-back").is_hidden()
    page.focus("#learn")
    page.keyboard.press("Enter")
    page.wait_for_selector("#learning-progress:not([hidden])")
    # Correcting goes on meanwhile.
    page.focus("#text")
    meanwhile = write_and_send(page, "a b")
    page.wait_for_selector("#comparison:not([hidden])", timeout=3 * DEADLINE_MS)
    assert project.item(meanwhile).text == "a b"
    [model] = project.models.learned()
    shown = page.inner_text("#comparison")
    assert f"{100 * model.rate:.1f}%" in shown and f"{100 * model.parent_rate:.1f}%" in shown
    assert model.offered and page.locator("#accept").is_visible(), model
    assert violations(page) == []
    visit.look("project-compared")
    before = created(tales)
    page.focus("#accept")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#model-facts")).to_contain_text(model.name, timeout=DEADLINE_MS)
    assert project.models.current == model.name
    assert created(tales) != before  # the server hears with it, without a restart
    page.focus("#go-back")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#model-facts")).to_contain_text("first", timeout=DEADLINE_MS)
    assert project.models.current == "base"
    assert created(tales) == before
    assert page.locator("#accept").is_visible()  # whoever goes back may change their mind


def created(tales: Tales) -> int:
    """Return when the served model was made."""
    [model] = json.loads(ask(tales.server, "GET", "/v1/models")[2])["data"]
    return int(model["created"])


def test_two_people_do_not_overwrite_each_other(browser: Any, tales: Tales) -> None:
    ana, bo = (visit_project(browser, tales.server) for _ in range(2))
    assert open_item(ana.page) != open_item(bo.page)
    # Both open the same one, from the list.
    item = tales.project.items(state="draft")[-1]
    for visit, name in ((ana, "Ana"), (bo, "Bo")):
        visit.page.fill("#author", name)
        visit.page.fill("#search", item.id)
        playwright.expect(visit.page.locator("#items li")).to_have_count(1)
        visit.page.locator("#items button").click()
        playwright.expect(visit.page.locator("#item-facts")).to_contain_text(f"{item.id} ")
        playwright.expect(visit.page.locator("#text")).to_be_focused()
    write_and_send(ana.page, "a ŋ")
    bo.page.keyboard.press("Control+a")
    bo.page.keyboard.type("b e")
    bo.page.keyboard.press("Enter")
    bo.page.wait_for_selector("#conflict:not([hidden])")
    assert bo.page.inner_text("#theirs") == "a ŋ"
    assert bo.page.inner_text("#mine") == "b e"
    assert tales.project.item(item.id).text == "a ŋ"
    assert violations(bo.page) == []
    bo.look("project-conflict")
    # Not even the plug is pulled in vain: both texts are still there.
    bo.page.reload()
    bo.page.wait_for_selector("#conflict:not([hidden])")
    bo.page.focus("#keep-mine")
    bo.page.keyboard.press("Enter")
    wait_for_other(bo.page, item.id)
    changes = tales.project.history(item.id)
    assert [(change.author, change.text) for change in changes] == [("Ana", "a ŋ"), ("Bo", "b e")]
    bo.complaints.clear()  # the browser itself notes the answer 409
    ana.leave()
    bo.leave()


def test_the_first_page_leads_there(browser: Any, tales: Tales) -> None:
    visit = Visit(browser, tales.server)
    assert violations(visit.page) == []
    visit.page.click("#to-project a")
    visit.page.wait_for_selector("#item:not([hidden])")
    visit.leave()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(browser: Any, tales: Tales, scheme: str) -> None:
    visit = visit_project(
        browser, tales.server, viewport=PHONE, color_scheme=scheme, has_touch=True
    )
    page = visit.page
    # Letters that the keyboard lacks, a mark to combine among them, go where the cursor is.
    page.fill("#text", "ab")
    page.evaluate("document.getElementById('text').setSelectionRange(1, 1)")
    page.locator(".letter", has_text="ɛ").click()
    page.locator(".letter", has_text="◌").click()
    assert page.input_value("#text") == "aɛ\u0301b"
    page.click("#more summary")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert violations(page) == []
    visit.look(f"project-phone-{scheme}")
    visit.leave()


def test_a_speaker_is_withdrawn_after_a_question(browser: Any, tales: Tales) -> None:
    visit = visit_project(browser, tales.server)
    page, project = visit.page, tales.project
    item = project.items(state="draft")[0]
    speaker = str(item.speaker)
    page.select_option("#speaker", speaker)
    page.locator("#items button").first.click()
    playwright.expect(page.locator("#item-facts")).to_contain_text(f"{speaker}/")
    page.keyboard.type("never sent")
    page.click("#more summary")
    page.click("#withdraw-speaker")
    assert violations(page) == []
    visit.look("project-withdraw")
    page.keyboard.press("Enter")  # what has the focus leaves everything as it is
    assert page.locator("#confirm").is_hidden()
    assert any(each.speaker == speaker for each in project.items())
    page.click("#withdraw-speaker")
    page.click("#confirm-yes")
    page.wait_for_selector("#confirm-yes", state="hidden")
    heard = any(speaker in name for model in project.models.learned() for name in model.heard)
    assert not heard and not any(each.speaker == speaker for each in project.items())
    assert "001" in page.inner_text("#confirm-text") or not project.models.learned()
    page.keyboard.press("Escape")
    page.wait_for_selector("#confirm", state="hidden")
    page.wait_for_function("() => !JSON.stringify({...localStorage}).includes('never sent')")
    visit.leave()
