"""Who may ask, how much, and what happens to those who ask too much."""

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from checkpoints import make_checkpoint
from running_server import RunningServer, ask, speech, wav

from arborvox.cli import app
from arborvox.errors import ArborvoxError

TOKEN = "a-token-of-enough-letters"


def form(data: bytes, name: str = "x.wav", **fields: str) -> tuple[bytes, dict[str, str]]:
    """Return a multipart body and its header."""
    parts = [
        f'--B\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    head = f'--B\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = b"".join([*parts, head.encode(), data, b"\r\n--B--\r\n"])
    return body, {"Content-Type": "multipart/form-data; boundary=B"}


def transcribe(server: RunningServer, data: bytes, **fields: str) -> tuple[int, dict[str, Any]]:
    body, headers = form(data, **{"model": "plain", **fields})
    status, _, answer = ask(server, "POST", "/v1/audio/transcriptions", body, headers)
    return status, json.loads(answer)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example", "", "127.0.0.1:80"],
)
def test_other_host_names_are_refused(server: RunningServer, host: str) -> None:
    """A name that only begins like ours could be anybody's (DNS rebinding)."""
    status, _, body = ask(server, "GET", "/v1/models", headers={"Host": host})
    assert status == 403
    assert json.loads(body)["error"]["type"] == "permission_error"


def test_own_names_are_answered(server: RunningServer) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        status, _, _ = ask(server, "GET", "/healthz", headers={"Host": f"{name}:{server.port}"})
        assert status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", "file://"])
def test_other_origins_are_refused(server: RunningServer, origin: str) -> None:
    body, headers = form(wav(speech(1.0)), model="plain")
    status, _, _ = ask(
        server, "POST", "/v1/audio/transcriptions", body, {**headers, "Origin": origin}
    )
    assert status == 403


def test_answers_keep_browsers_in_bounds(server: RunningServer) -> None:
    _, headers, _ = ask(server, "GET", "/")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert f"ws://{server.host}:{server.port}" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers
    _, headers, _ = ask(server, "GET", "/v1/models", headers={"X-Request-ID": "mine-1"})
    assert (headers["x-request-id"], headers["cache-control"]) == ("mine-1", "no-store")
    _, headers, _ = ask(server, "GET", "/v1/models", headers={"X-Request-ID": "bad id\t!"})
    assert headers["x-request-id"] != "bad id\t!"


@pytest.mark.parametrize(
    "path", ["/page/../server.py", "/page/%2e%2e%2fserver.py", "/page/nothing", "/v1/nothing",
             "/v1/models/..%2f..%2fetc", "/v1/examples/99", "/v1/documents/exe"]
)  # fmt: skip
def test_no_other_file_can_be_had(server: RunningServer, path: str) -> None:
    status, _, body = ask(server, "POST" if "documents" in path else "GET", path)
    assert status == 404
    assert json.loads(body)["error"]["message"]


def test_a_server_without_a_project_says_so(server: RunningServer) -> None:
    assert ask(server, "GET", "/v1/project")[2] == b"null"
    for path in ("/project", "/v1/project/items", "/v1/project/learning"):
        assert ask(server, "GET", path)[0] == 404


def test_health_and_metrics(server: RunningServer) -> None:
    assert json.loads(ask(server, "GET", "/healthz")[2])["status"] == "ok"
    assert transcribe(server, wav(speech(1.0)))[0] == 200
    status, headers, body = ask(server, "GET", "/metrics")
    text = body.decode()
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    wanted = 'arborvox_requests_total{route="/v1/audio/transcriptions",status="200"} '
    assert any(line.startswith(wanted) for line in text.splitlines())
    for line in text.splitlines():
        assert line.startswith("#") or len(line.rsplit(" ", 1)) == 2
        assert line.startswith("#") or float(line.rsplit(" ", 1)[1]) >= 0


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 415),
        (b"{}", {"Content-Type": "application/json"}, 415),
        (b"x", {"Content-Type": "multipart/form-data"}, 415),
        (b"x", {"Content-Type": "multipart/form-data; boundary=B"}, 400),
        (b"--B\r\n\r\nx\r\n--B--\r\n", {"Content-Type": "multipart/form-data; boundary=B"}, 400),
        (form(b"x")[0][:-20], {"Content-Type": "multipart/form-data; boundary=B"}, 400),
        (form(b"x")[0], {**form(b"x")[1], "Content-Encoding": "gzip"}, 415),
        (form(b"x" * (5 << 20))[0], form(b"")[1], 413),
        (form(b"x", note="y" * 70_000)[0], form(b"")[1], 400),
        (form(b"x", **{f"f{n}": "y" for n in range(80)})[0], form(b"")[1], 400),
        (form(b"x", model="plain", stream="maybe")[0], form(b"")[1], 400),
    ],
)
def test_broken_requests_are_told_what_is_wrong(
    server: RunningServer, body: bytes, headers: dict[str, str], status: int
) -> None:
    found, _, answer = ask(server, "POST", "/v1/audio/transcriptions", body, headers)
    assert found == status
    assert json.loads(answer)["error"]["message"].endswith(".")
    assert not server.left_files


@pytest.mark.parametrize("name", ["../../../tmp/x.wav", "/etc/passwd", "a\\b", "x\0y", "é" * 500])
def test_a_files_name_is_not_ours(server: RunningServer, name: str) -> None:
    body, headers = form(wav(speech(1.0)), name=name, model="plain")
    status, _, _ = ask(server, "POST", "/v1/audio/transcriptions", body, headers)
    assert status in (200, 400)
    assert not server.left_files


def test_huge_headers_are_refused(server: RunningServer) -> None:
    with socket.create_connection((server.host, server.port), timeout=60) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * (1 << 20))
        assert b" 400 " in raw.recv(4096).split(b"\r\n")[0]


def test_documents_are_checked(server: RunningServer) -> None:
    word = {"text": "bon", "start_s": 0.0, "end_s": 0.5, "confidence": 1.0}
    segment = {"start_s": 0.0, "end_s": 1.0, "text": "bon", "confidence": 1.0, "words": [word]}
    good = {"duration_s": 1.0, "segments": [segment]}
    for kind in ("srt", "vtt", "eaf", "textgrid", "text", "json"):
        status, _, body = ask(server, "POST", f"/v1/documents/{kind}", json.dumps(good).encode())
        assert status == 200
        assert b"bon" in body
    changes: list[dict[str, Any]] = [
        {"duration_s": "long"},
        {"segments": 7},
        {"segments": [{**segment, "start_s": 5.0}]},
        {"segments": [{**segment, "end_s": 1e99}]},
        {"segments": [segment, {**segment, "start_s": -1.0}]},
        {"segments": [{**segment, "words": [{**word, "start_s": 9.0}]}]},
    ]
    for change in changes:
        body = json.dumps({**good, **change}).encode()
        assert ask(server, "POST", "/v1/documents/eaf", body)[0] == 400
    for body in (b"", b"[" * 100_000, b"\xff", b'{"duration_s": NaN, "segments": []}'):
        assert ask(server, "POST", "/v1/documents/srt", body)[0] == 400
    strange = {**segment, "text": "\x00\x1b<&>]]>", "words": []}
    body = json.dumps({"duration_s": 1.0, "segments": [strange]}).encode()
    for kind in ("srt", "vtt", "eaf", "textgrid"):
        assert ask(server, "POST", f"/v1/documents/{kind}", body)[0] in (200, 400)


# --- a server with a token and tight limits, and its end ------------------------------------


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("strict")
    run = make_checkpoint(folder / "run", decoder="none", output="softmax", ctc="softmax")
    (folder / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
    (folder / "words.json").write_text('{"title": "Esther", "lang": "ca"}', encoding="utf-8")
    (folder / "example.wav").write_bytes(wav(speech(1.0)))
    options = [
        f"--token-file={folder / 'token'}", f"--words={folder / 'words.json'}", "--idle-s=1",
        f"--example={folder / 'example.wav'}", "--parallel=1", "--queue=1", "--max-time-s=30",
    ]  # fmt: skip
    running = RunningServer([f"plain={run}", *options], folder / "server")
    yield running
    running.stop()


def test_a_token_is_asked_for(strict: RunningServer) -> None:
    for given in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
        status, headers, body = ask(
            strict, "GET", "/v1/models", headers={"Authorization": given} if given else {}
        )
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert json.loads(body)["error"]["code"] == "invalid_api_key"
    assert ask(strict, "GET", "/metrics")[0] == 401
    assert ask(strict, "GET", "/")[0] == ask(strict, "GET", "/page/words.json")[0] == 200
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    assert ask(strict, "GET", "/v1/models", headers=allowed)[0] == 200
    assert ask(strict, "GET", "/v1/examples/0", headers=allowed)[2] == wav(speech(1.0))


def test_the_pages_words_can_be_translated(strict: RunningServer) -> None:
    words = json.loads(ask(strict, "GET", "/page/words.json")[2])
    assert (words["title"], words["lang"], words["stop"]) == ("Esther", "ca", "Stop")


def test_slow_clients_are_let_go_and_full_queues_say_when(strict: RunningServer) -> None:
    """Two requests that never end fill the server; a third is told to come again."""
    body, headers = form(wav(speech(1.0)))
    head = (
        f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: {strict.host}:{strict.port}\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Type: {headers['Content-Type']}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    with (
        socket.create_connection((strict.host, strict.port), timeout=60) as one,
        socket.create_connection((strict.host, strict.port), timeout=60) as two,
        socket.create_connection((strict.host, strict.port), timeout=60) as mute,
    ):
        one.sendall(head + body[:100])
        two.sendall(head + body[:100])
        mute.sendall(b"GET / HT")
        allowed = {**headers, "Authorization": f"Bearer {TOKEN}"}
        refused = []
        while True:  # until both have arrived
            status, answered, _ = ask(strict, "POST", "/v1/audio/transcriptions", body, allowed)
            if status == 429:
                refused.append(answered)
                break
        assert int(refused[0]["retry-after"]) >= 1
        assert b" 408 " in one.recv(4096).split(b"\r\n")[0]
        assert b" 408 " in two.recv(4096).split(b"\r\n")[0]
        assert mute.recv(4096) == b""
    assert ask(strict, "POST", "/v1/audio/transcriptions", body, allowed)[0] == 200
    assert not strict.left_files


def test_a_stopping_server_ends_what_runs_and_takes_no_more(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    server = RunningServer([f"plain={runs['plain']}", "--max-duration-s=4000"], tmp_path)
    body, headers = form(wav(speech(120.0)), model="plain", stream="true")
    running = http.client.HTTPConnection(server.host, server.port, timeout=120)
    running.request("POST", "/v1/audio/transcriptions", body, headers)
    answer = running.getresponse()  # the first words are there, and many are to come
    assert answer.status == 200
    waiting = http.client.HTTPConnection(server.host, server.port, timeout=120)
    waiting.connect()
    ended: list[int] = []
    stopping = threading.Thread(target=lambda: ended.append(server.stop()))
    stopping.start()
    while ask(server, "GET", "/healthz")[0] != 503:
        pass
    status, refused, told = ask(server, "POST", "/v1/audio/transcriptions", body, headers)
    assert (status, refused["retry-after"]) == (503, "5")
    assert json.loads(told)["error"]["code"] == "stopping"
    assert b'"transcript.text.done"' in answer.read()
    stopping.join(timeout=60)
    assert ended == [0]
    assert list(server.scratch.iterdir()) == []
    running.close()
    waiting.close()


def test_a_process_that_dies_is_started_again(runs: dict[str, Path], tmp_path: Path) -> None:
    server = RunningServer([f"plain={runs['plain']}"], tmp_path)
    try:
        assert transcribe(server, wav(speech(1.0)))[0] == 200
        for child in psutil.Process(server.process.pid).children(recursive=True):
            if child.memory_info().rss > 150 << 20:  # it has torch loaded
                child.kill()
        statuses = [transcribe(server, wav(speech(1.0)))[0] for _ in range(3)]
        assert set(statuses) <= {200, 503}
        assert statuses[-1] == 200
        assert "arborvox_restarts_total 1" in ask(server, "GET", "/metrics")[2].decode()
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--host=0.0.0.0"], "needs a token"),
        (["--host=192.0.2.1"], "needs a token"),
        (["--host=0.0.0.0", "--token-file={token}"], "--allow-host"),
        (["--token-file={short}"], "16 ASCII characters"),
        (["--token-file=/nowhere"], "no token file"),
        (["--inventories={folder}"], "holds no inventories"),
        (["--example=/nowhere.wav"], "no example"),
        (["--words={short}"], "JSON"),
        (["{run}"], "would both be called"),
        (["--port={taken}"], "cannot be used"),
    ],
)
def test_what_cannot_be_served_is_told_in_a_sentence(
    server: RunningServer, runs: dict[str, Path], tmp_path: Path, options: list[str], told: str
) -> None:
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    (tmp_path / "short").write_text("short", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    places = {name: str(tmp_path / name) for name in ("token", "short", "folder")}
    places |= {"run": str(runs["plain"]), "taken": str(server.port)}
    words = [option.format(**places) for option in options]
    with pytest.raises(ArborvoxError, match=re.escape(told)):
        app(["serve", str(runs["plain"]), "--port=0", *words], standalone_mode=False)


def test_a_model_that_is_none_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no checkpoint folder"):
        RunningServer([str(tmp_path / "nothing")], tmp_path / "server")
