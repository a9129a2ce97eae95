"""The page in a real browser: upload, microphone, downloads, phone, dark, keyboard, axe-core."""

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
    opened_browser,
    playwright,
    violations,
)
from running_server import RunningServer, speech, wav

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "speech.wav"
    path.write_bytes(wav(speech(4.0)))
    return path


@pytest.fixture(scope="module")
def browser(sound: Path) -> Iterator[Any]:
    with opened_browser(f"--use-file-for-fake-audio-capture={sound}") as made:
        yield made


def test_a_recording_is_read_heard_and_explained(
    browser: Any, server: RunningServer, sound: Path
) -> None:
    visit = Visit(browser, server)
    page = visit.page
    assert violations(page) == []
    visit.look("start")
    visit.upload(sound)
    assert page.locator(".segment canvas").count() == page.locator(".segment").count() == 2
    page.locator(".word").first.click()
    page.wait_for_selector(".why .gates .gate")
    gates = page.locator(".why .gate").count()
    assert 1 <= gates <= 10
    assert page.locator(".why .rival").count() >= 2
    assert page.locator(".word[aria-pressed=true]").count() == 1
    assert violations(page) == []
    visit.look("recording")
    page.locator(".why-head button").click()
    assert page.locator(".why").count() == 0
    # A softmax has no tree, and the page says so.
    visit.upload(sound, model="plain")
    page.locator(".recording").first.locator(".word").first.click()
    page.wait_for_selector(".why .rival")
    assert page.locator(".why .gate").count() == 0
    assert "no tree" in page.locator(".why .hint").inner_text()
    visit.leave()


def test_the_text_is_saved_for_other_programs(
    browser: Any, server: RunningServer, sound: Path
) -> None:
    visit = Visit(browser, server)
    visit.upload(sound, model="plain")
    starts = {"TXT": "", "SRT": "1\n", "VTT": "WEBVTT", "EAF": "<?xml", "TextGrid": "File type"}
    words = visit.page.locator(".word").all_inner_texts()
    for label, start in starts.items():
        with visit.page.expect_download() as download:
            visit.page.locator(".downloads button", has_text=label).click()
        file = download.value
        assert file.suggested_filename.lower() == f"speech.{label.lower()}"
        text = Path(file.path()).read_text(encoding="utf-8")
        assert text.startswith(start)
        assert all(word in text.replace("\n", "") for word in words)
    visit.leave()


def test_speaking_shows_text_while_it_is_said(browser: Any, server: RunningServer) -> None:
    visit = Visit(browser, server)
    page = visit.page
    page.select_option("#model", "plain")
    page.click("#record")
    for place in ("#saying", "#said"):
        told = playwright.expect(page.locator(place))
        told.to_have_text(re.compile(".{4}"), timeout=DEADLINE_MS)
    assert int(page.get_attribute("#level", "aria-valuenow")) >= 0
    assert violations(page) == []
    visit.look("speaking")
    page.click("#record")
    page.wait_for_selector(".recording:not([aria-busy]) .word")
    assert page.locator("#live").is_hidden()
    assert page.locator(".recording audio").count() == 1
    visit.leave()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(
    browser: Any, server: RunningServer, sound: Path, scheme: str
) -> None:
    visit = Visit(browser, server, viewport=PHONE, color_scheme=scheme, has_touch=True)
    page = visit.page
    visit.upload(sound)
    page.locator(".word").first.click()
    page.wait_for_selector(".why .gate")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    lightness = sum(map(int, color.strip("rgb()").split(","))) / 3
    assert (lightness > 128) == (scheme == "light")
    assert violations(page) == []
    visit.look(f"phone-{scheme}")
    visit.leave()


def test_the_keyboard_is_enough(browser: Any, server: RunningServer, sound: Path) -> None:
    visit = Visit(browser, server)
    page = visit.page
    reached = []
    for _ in range(6):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    assert reached == ["", "model", "language", "inventory", "record", "choose"]  # after the skip
    visit.upload(sound)
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.className || document.activeElement.id"))
        if seen[-1] == "word":
            break
    assert seen[-1] == "word", seen
    page.keyboard.press("Enter")
    page.wait_for_selector(".why .gate")
    while page.evaluate("document.activeElement.closest('.why')") is None:
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the first button of the panel closes it
    assert page.locator(".why").count() == 0
    assert page.evaluate("document.activeElement.className") == "word"
    visit.leave()


def test_what_fails_is_told_in_plain_words(
    browser: Any, server: RunningServer, tmp_path: Path
) -> None:
    visit = Visit(browser, server)
    broken = tmp_path / "broken.wav"
    broken.write_bytes(wav(speech(2.0))[:5000])
    visit.page.set_input_files("#file", broken)
    visit.page.wait_for_selector("#notice:not([hidden])")
    assert "cannot be read" in visit.page.inner_text("#notice")
    assert "truncated" in visit.page.inner_text("#notice small")
    assert violations(visit.page) == []
    visit.complaints.clear()  # the browser itself notes the answer 400
    visit.leave()
