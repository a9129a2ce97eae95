"""The pages in a real browser: Debian's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from running_server import RunningServer

playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra `test`")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium (see .ci/run)"
)
QUIET = (
    "--disable-background-networking --disable-component-update --disable-sync --no-first-run "
    "--disable-gpu --autoplay-policy=no-user-gesture-required "
    "--use-fake-ui-for-media-stream --use-fake-device-for-media-stream"
).split()
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
DEADLINE_MS = 60_000


@contextmanager
def opened_browser(*options: str) -> Iterator[Any]:
    """Start a browser for as long as the block lasts."""
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(
            executable_path=CHROMIUM, args=[*QUIET, *options], chromium_sandbox=False
        )
        yield made
        made.close()


class Visit:
    """The page in a fresh context, with what went wrong in it and whom it asked."""

    def __init__(
        self, browser: Any, server: RunningServer, path: str = "/", **settings: Any
    ) -> None:
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
        self.page.goto(f"{server.url}{path}")
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


def visit_project(browser: Any, server: RunningServer, **settings: Any) -> Visit:
    """Open the page of a project with the utterance that it proposes."""
    visit = Visit(browser, server, "/project", **settings)
    visit.page.wait_for_selector("#item:not([hidden])")
    return visit


def open_item(page: Any) -> str:
    """Return the id of the utterance that the page has open."""
    return str(page.inner_text("#item-facts").split(" · ")[0])


def violations(page: Any) -> list[str]:
    """Ask axe-core what is in the way of people who see or move otherwise."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {[node['target'] for node in each['nodes']]}" for each in found]
