"""A project's requests: what is listed, saved, refused, taken back and withdrawn."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from running_server import RunningServer, ask
from tiny_project import UNITS, make_model, make_project

from arborvox.cli import app
from arborvox.errors import ArborvoxError
from arborvox.project import Project

TOKEN = "a-token-of-enough-letters"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "first")


@pytest.fixture(scope="module")
def project(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("work") / "tales", run)[0]


@pytest.fixture(scope="module")
def server(
    project: Project, run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    running = RunningServer(
        [f"tones={run}", f"--project={project.folder}"], folder, ARBORVOX_TOKEN=TOKEN
    )
    yield running
    assert running.stop() == 0, running.log


def say(
    server: RunningServer, method: str, path: str, value: Any = None, **headers: str
) -> tuple[int, Any]:
    """Ask about the project; return the status and what the answer says."""
    body = None if value is None else json.dumps(value).encode()
    told = {"Authorization": f"Bearer {TOKEN}", **headers}
    status, _, answer = ask(server, method, f"/v1/project{path}", body, told)
    return status, json.loads(answer)


def items(server: RunningServer, query: str = "") -> list[dict[str, Any]]:
    status, answer = say(server, "GET", f"/items?limit=1000&{query}")
    assert status == 200
    return list(answer["items"])


def test_the_project_is_described(server: RunningServer, project: Project) -> None:
    status, told = say(server, "GET", "")
    assert status == 200
    assert (told["name"], told["language"], told["served_as"]) == ("tales", "x-a", "tones")
    assert told["num_items"] == len(project.items())
    assert told["speakers"] == ["ana", "bo"]
    assert told["propose"] == "random"
    assert told["letters"] == sorted(unit for unit in UNITS if not unit.isascii())


def test_strangers_neither_read_nor_change_it(server: RunningServer, project: Project) -> None:
    item = project.items()[0]
    before = project.log.path.read_bytes()
    changes = [
        ("PUT", f"/items/{item.id}", {"text": "x", "revision": item.revision}),
        ("POST", f"/items/{item.id}/undo", {"revision": item.revision}),
        ("POST", "/withdrawals", {"speaker": "ana"}),
        ("POST", "/learning", {}),
        ("POST", "/learning/back", {"model": "base"}),
        ("GET", f"/items/{item.id}/audio", None),
        ("GET", "/items", None),
    ]
    for method, path, value in changes:
        assert say(server, method, path, value, Authorization="")[0] == 401
        assert say(server, method, path, value, Authorization="Bearer wrong")[0] == 401
        assert say(server, method, path, value, Origin="https://evil.example")[0] == 403
        assert say(server, method, path, value, Host="evil.example")[0] == 403
    assert project.log.path.read_bytes() == before


def test_utterances_are_found_by_state_speaker_and_words(
    server: RunningServer, project: Project
) -> None:
    everything = items(server)
    assert [each["id"] for each in everything] == [item.id for item in project.items()]
    hers = items(server, "speaker=ana")
    assert {each["speaker"] for each in hers} == {"ana"} and len(hers) == len(everything) // 2
    assert [each["id"] for each in items(server, "search=BO/tale1")] == ["bo/tale1/0001"]
    assert items(server, "search=tale1%20xyz") == []
    assert items(server, "id=ana/tale0/0001&id=gone/0/0001")[0]["id"] == "ana/tale0/0001"
    _, page = say(server, "GET", "/items?offset=3&limit=2")
    assert [each["id"] for each in page["items"]] == [each["id"] for each in everything[3:5]]
    assert page["total"] == len(everything)


@pytest.mark.parametrize(
    "query", ["state=wrong", "limit=-1", "limit=1001", "offset=1e3", "limit=%C2%B2"]
)
def test_a_list_asked_for_wrongly_is_refused(server: RunningServer, query: str) -> None:
    status, answer = say(server, "GET", f"/items?{query}")
    assert status == 400
    assert answer["error"]["param"] == query.partition("=")[0]


def test_the_sound_is_given_whole_and_in_ranges(server: RunningServer, project: Project) -> None:
    item = project.items()[0]
    data = (project.folder / item.audio).read_bytes()
    path = f"/v1/project/items/{item.id}/audio"
    token = {"Authorization": f"Bearer {TOKEN}"}
    status, headers, answer = ask(server, "GET", path, headers=token)
    assert (status, headers["content-type"], answer) == (200, "audio/flac", data)
    assert headers["cache-control"] == "no-store"  # what is withdrawn stays in no cache
    status, headers, answer = ask(server, "GET", path, headers={**token, "Range": "bytes=4-19"})
    assert (status, answer) == (206, data[4:20])


def test_two_people_are_proposed_different_utterances(server: RunningServer) -> None:
    first, second = (
        say(server, "GET", f"/next?visitor={name}")[1]["item"]["id"] for name in ("one", "two")
    )
    assert first != second


def test_a_text_is_saved_once_and_never_over_anothers(
    server: RunningServer, project: Project
) -> None:
    item = next(each for each in project.items() if each.state == "draft")
    path = f"/items/{item.id}"
    mine = {"text": "a ɛ\u0301  ŋ", "revision": item.revision, "author": "carla"}
    status, saved = say(server, "PUT", path, mine)
    assert (status, saved["text"], saved["state"]) == (200, "a ɛ\u0301 ŋ", "confirmed")
    # The answer was lost, and the browser sends it again.
    assert say(server, "PUT", path, mine) == (200, saved)
    assert len(project.history(item.id)) == saved["revision"] == item.revision + 1
    # Somebody who saw what stood there before is told what stands there now.
    theirs = {"text": "b b", "revision": item.revision, "author": "dan"}
    status, answer = say(server, "PUT", path, theirs)
    assert (status, answer["error"]["code"], answer["item"]) == (409, "conflict", saved)
    assert project.item(item.id).text == saved["text"]
    status, answer = say(server, "PUT", path, {**theirs, "revision": saved["revision"]})
    assert (status, answer["text"]) == (200, "b b")
    # Each change can be taken back, one after the other.
    for expected in (saved["text"], item.text):
        status, answer = say(server, "POST", f"{path}/undo", {"revision": answer["revision"]})
        assert (status, answer["text"]) == (200, expected)
    status, changes = say(server, "GET", f"{path}/history")
    assert [change["kind"] for change in changes] == ["save", "save", "undo", "undo"]
    assert answer["state"] == "draft"


def test_what_is_skipped_is_not_proposed(server: RunningServer) -> None:
    item = say(server, "GET", "/next?visitor=skipper")[1]["item"]
    status, skipped = say(
        server, "POST", f"/items/{item['id']}/skip", {"revision": item["revision"]}
    )
    assert (status, skipped["state"]) == (200, "skipped")
    assert say(server, "GET", "/next?visitor=skipper")[1]["item"]["id"] != item["id"]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{", b'{"text": "x"}', b'{"text": 3, "revision": 0}',
        b'{"text": "x", "revision": "0"}', b'{"text": "x", "revision": 0, "more": 1}',
        b'{"text": "   ", "revision": 0}', b'{"text": "a\\u0000b", "revision": 0}',
        b'{"text": "\\ud800", "revision": 0}', b'{"text": "' + b"x" * 10_001 + b'", "revision": 0}',
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_one_changes_nothing(
    server: RunningServer, project: Project, body: bytes
) -> None:
    item = next(each for each in project.items() if each.revision == 0)
    before = project.log.path.read_bytes()
    token = {"Authorization": f"Bearer {TOKEN}"}
    status, _, answer = ask(server, "PUT", f"/v1/project/items/{item.id}", body, token)
    assert status == 400, answer
    assert json.loads(answer)["error"]["message"]
    assert project.log.path.read_bytes() == before
    huge = b'{"text": "' + b"x" * (1 << 20) + b'", "revision": 0}'
    assert ask(server, "PUT", f"/v1/project/items/{item.id}", huge, token)[0] == 413


@pytest.mark.parametrize(
    "name",
    ["", "ana", "../project.json", "ana/tale0/../../../project", "/etc/passwd", "a\\b", "\x00"],
)
def test_no_other_file_is_an_utterance(server: RunningServer, name: str) -> None:
    for path, method in ((f"/items/{quote(name)}/audio", "GET"), (f"/items/{quote(name)}", "GET")):
        if path == "/items/":
            continue  # the list, by another name
        status, answer = say(server, method, path)
        assert status == 404, (path, answer)
        assert "error" in answer


def test_a_withdrawn_recording_is_gone_for_everybody(
    server: RunningServer, project: Project
) -> None:
    name = "bo/tale7"
    sound = (project.folder / f"audio/{name}/0001.flac").read_bytes()
    assert say(server, "POST", "/withdrawals", {})[0] == 400
    assert say(server, "POST", "/withdrawals", {"recording": name, "speaker": "bo"})[0] == 400
    assert say(server, "POST", "/withdrawals", {"recording": "nobody/none"})[0] == 400
    status, gone = say(server, "POST", "/withdrawals", {"recording": name})
    assert (status, gone["recordings"], gone["models"]) == (200, [name], [])
    for path in ("", "/audio", "/history"):
        assert say(server, "GET", f"/items/{name}/0001{path}")[0] == 404
    assert items(server, f"search={name}") == []
    kept = [path for path in project.folder.rglob("*") if path.is_file()]
    assert not any(sound in path.read_bytes() for path in kept)
    assert not any(name.encode() in path.read_bytes() for path in kept)


def test_the_log_names_neither_people_nor_texts(server: RunningServer) -> None:
    requests = server.log[server.log.index("{") :]
    assert "carla" not in requests and "tale" not in requests


def test_what_is_no_project_is_told_in_a_sentence(
    project: Project, run: Path, tmp_path: Path
) -> None:
    other = make_model(tmp_path / "other")
    for arguments, told in (
        ([str(run), f"--project={tmp_path}"], "is no project"),
        ([str(other), f"--project={project.folder}"], "began with"),
        ([], "Name a run"),
    ):
        with pytest.raises(ArborvoxError, match=told):
            app(["serve", *arguments, "--port=0"], standalone_mode=False)
