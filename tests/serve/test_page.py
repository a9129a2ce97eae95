"""The page in a real browser: upload, microphone, downloads, phone, dark, keyboard, axe-core."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_server import RunningServer, speech, wav

playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra `test`")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium (see .ci/run)"
)
QUIET = (
    "--disable-background-networking --disable-component-update --disable-sync --no-first-run "
    "--disable-gpu --autoplay-policy=no-user-gesture-required "
    "--use-fake-ui-for-media-stream --use-fake-device-for-media-stream"
).split()
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
DEADLINE_MS = 60_000


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "speech.wav"
    path.write_bytes(wav(speech(4.0)))
    return path


@pytest.fixture(scope="module")
def browser(sound: Path) -> Iterator[Any]:
    microphone = f"--use-file-for-fake-audio-capture={sound}"
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(
            executable_path=CHROMIUM, args=[*QUIET, microphone], chromium_sandbox=False
        )
        yield made
        made.close()


class Visit:
    """The page in a fresh context, with what went wrong in it and whom it asked."""

    def __init__(self, browser: Any, server: RunningServer, **settings: Any) -> None:
        self.context = browser.new_context(
            **{"viewport": DESK, "permissions": ["microphone"], **settings}
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(DEADLINE_MS)
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        self.page.on("websocket", lambda socket: self.hosts.add(socket.url.split("/")[2]))
        self.page.goto(server.url)
        self.page.wait_for_selector("body[data-ready]")
        self.own_host = f"{server.host}:{server.port}"

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def upload(self, path: Path, model: str = "tree") -> None:
        """Bring a recording and wait for its words."""
        self.page.select_option("#model", model)
        self.page.set_input_files("#file", path)
        self.page.wait_for_selector(".recording:not([aria-busy]) .word")

    def look(self, name: str) -> None:
        """Keep a picture where ARBORVOX_SCREENSHOTS says."""
        if folder := os.environ.get("ARBORVOX_SCREENSHOTS"):
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    def leave(self) -> None:
        """Close it; nothing may have gone wrong, and nobody else was asked."""
        self.context.close()
        assert self.complaints == []
        assert self.hosts == {self.own_host}


def violations(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {[node['target'] for node in each['nodes']]}" for each in found]


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
