"""Whoever is killed or stopped: what was confirmed is there, and nothing is there twice."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from browsing import needs_chromium, open_item, opened_browser, visit_project
from running_server import RunningServer, ask
from tiny_project import Tales

from arborvox.project import Item, Project, read_status

AUTHOR = "carla"


@pytest.fixture(scope="module")
def tales(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tales]:
    made = Tales(tmp_path_factory.mktemp("tales"))
    yield made
    assert made.server.stop() == 0, made.server.log


def send(server: RunningServer, method: str, path: str, value: Any = None) -> tuple[int, Any]:
    body = None if value is None else json.dumps(value).encode()
    status, _, answer = ask(server, method, f"/v1/project{path}", body)
    return status, json.loads(answer)


def save(server: RunningServer, item: Item, text: str) -> int:
    change = {"text": text, "revision": item.revision, "author": AUTHOR}
    return send(server, "PUT", f"/items/{item.id}", change)[0]


def test_a_killed_server_loses_nothing_that_it_confirmed(tales: Tales) -> None:
    items = tales.project.items()[: len(tales.said) // 2]
    confirmed: set[str] = set()
    some = threading.Event()

    def correct(mine: list[Item]) -> None:
        for item in mine:
            try:
                if save(tales.server, item, tales.said[item.id]) == 200:
                    confirmed.add(item.id)
            except (OSError, http.client.HTTPException):
                return  # killed over it: nobody knows whether this one was written
            if len(confirmed) >= len(items) // 3:
                some.set()

    people = [threading.Thread(target=correct, args=(items[n::3],)) for n in range(3)]
    for each in people:
        each.start()
    assert some.wait(60)
    tales.server.process.kill()
    for each in people:
        each.join()
    tales.kill_and_start()
    project = Project.open(tales.project.folder)
    for name in confirmed:
        assert project.item(name).text == tales.said[name]
    # Everybody sends again what was not confirmed; what was written all the same counts once.
    for item in items:
        assert save(tales.server, item, tales.said[item.id]) == 200
    for item in items:
        assert [change.kind for change in project.history(item.id)] == ["save"]
        assert (project.folder / item.audio).with_suffix(".txt").read_text() == (
            f"{tales.said[item.id]}\n"
        )


def test_a_stopped_server_goes_on_where_it_was(tales: Tales) -> None:
    item = tales.project.items(state="draft")[0]
    tales.server.process.send_signal(signal.SIGSTOP)  # as of a laptop that is closed
    answers: list[int] = []
    people = [
        threading.Thread(
            target=lambda: answers.append(save(tales.server, item, tales.said[item.id]))
        )
        for _ in range(2)  # one who has sent it, and sends it again out of impatience
    ]
    for each in people:
        each.start()
    tales.server.process.send_signal(signal.SIGCONT)
    for each in people:
        each.join()
    assert answers == [200, 200]
    assert [change.kind for change in tales.project.history(item.id)] == ["save"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process as Linux does")
def test_a_full_disk_is_told_and_the_text_is_saved_once_there_is_room(tales: Tales) -> None:
    item = tales.project.items(state="draft")[0]
    server = psutil.Process(tales.server.process.pid)
    usual = server.rlimit(psutil.RLIMIT_FSIZE)
    before = tales.project.log.path.read_bytes()
    server.rlimit(psutil.RLIMIT_FSIZE, (len(before), usual[1]))  # no file can grow beyond
    assert save(tales.server, item, tales.said[item.id]) == 507
    assert tales.project.log.path.read_bytes() == before
    assert tales.project.item(item.id) == item
    server.rlimit(psutil.RLIMIT_FSIZE, usual)
    assert save(tales.server, item, tales.said[item.id]) == 200
    assert [change.kind for change in tales.project.history(item.id)] == ["save"]


@needs_chromium
def test_what_is_typed_while_the_server_is_gone_is_saved_when_it_is_back(tales: Tales) -> None:
    with opened_browser() as browser:
        visit = visit_project(browser, tales.server)
        page, item = visit.page, open_item(visit.page)
        tales.server.process.kill()
        tales.server.process.wait()
        page.keyboard.press("Control+a")
        page.keyboard.type("a ŋ d")
        page.keyboard.press("Enter")
        page.wait_for_selector("#notice:not([hidden])")
        assert "cannot be reached" in page.inner_text("#notice")
        assert page.input_value("#text") == "a ŋ d"
        assert tales.project.item(item).revision == 0
        tales.kill_and_start()
        page.focus("#text")
        page.keyboard.press("Enter")
        page.wait_for_function(
            "item => !document.getElementById('item-facts').textContent.startsWith(`${item} `)",
            arg=item,
        )
        visit.context.close()
    assert [change.text for change in tales.project.history(item)] == ["a ŋ d"]


def test_learning_outlives_its_server_and_goes_on_when_it_is_killed_itself(tales: Tales) -> None:
    project, folder = tales.project, tales.project.folder
    for item in project.items(state="draft"):
        project.save(item.id, tales.said[item.id], revision=item.revision, author=AUTHOR)
    assert send(tales.server, "POST", "/learning", {})[0] == 202
    assert send(tales.server, "POST", "/learning", {})[0] == 400  # one at a time
    worker = wait_until_it_trains(tales.server, folder)
    tales.kill_and_start()
    status = send(tales.server, "GET", "/learning")[1]["status"]
    assert status["running"] and status["process"] == worker
    # What is withdrawn must not be learned from at the same time.
    assert send(tales.server, "POST", "/withdrawals", {"speaker": "ana"})[0] == 400
    for sign in (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL):
        os.kill(worker, sign)
    told = wait_for_end(tales.server)
    assert told["status"]["stage"] == "train" and told["newest"] is None
    assert project.models.current == "base"
    assert send(tales.server, "POST", "/learning", {})[0] == 202
    told = wait_for_end(tales.server)
    assert told["status"]["stage"] == "done", told
    assert [model.name for model in project.models.learned()] == ["001"] == [told["newest"]["name"]]
    assert not (folder / "work").exists()
    assert all(len(project.history(name)) == 1 for name in tales.said)


def wait_until_it_trains(server: RunningServer, folder: Path) -> int:
    """Return who trains, as soon as somebody does."""
    while (status := read_status(folder)).stage != "train":
        assert status.stage == "prepare", status
        look_again(server)
    return status.process


def wait_for_end(server: RunningServer) -> Any:
    """Return what the server says of a round when that is over."""
    while (told := send(server, "GET", "/learning")[1])["status"]["running"]:
        look_again(server)
    return told


def look_again(server: RunningServer) -> None:
    """Leave the processor to others for a moment; a server that ends is told at once."""
    with pytest.raises(subprocess.TimeoutExpired):
        server.process.wait(timeout=0.1)
