"""The page: its searches equal ours, and in a browser without network it writes the same."""

import functools
import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from checkpoints import make_checkpoint

from arborvox.decode.ctc import align_hypothesis, search_prefixes
from arborvox.decode.encoded import CtcScores
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.segments import split_at_pauses
from arborvox.decode.settings import BeamSettings
from arborvox.errors import ArborvoxError
from arborvox.export import page
from arborvox.export.exporting import export_onnx
from arborvox.recognizer import load
from arborvox.runtime.manifest import GateTree
from arborvox.runtime.outputs import GateOutput
from arborvox.tree import HuffmanTree

SITE = Path(page.__file__).parent / "site"
NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")

SEARCH = """
import { align, bestLeaves, frameCandidates, frameScores, prefixBeam } from "SITE/search.js";
import { splitAtPauses } from "SITE/segments.js";
import { readFileSync } from "node:fs";
const given = JSON.parse(readFileSync(0, "utf8"));
const tree = given.tree;
const scores = Float32Array.from(given.scores);
const rows = frameScores(scores, given.frames, given.width, tree);
const candidates = frameCandidates(scores, rows, given.width, tree, given.count);
const { tokens, score } = prefixBeam(rows, candidates, given.beam, given.bonus);
const leaves = bestLeaves(scores.subarray(0, given.width), tree.left, tree.right, 5);
const samples = Float32Array.from(given.samples);
const read = (start, end) => samples.subarray(start, end);
const parts = [];
for await (const part of splitAtPauses(read, samples.length, given.rate, given.longest)) {
  parts.push(part);
}
console.log(JSON.stringify({
  tokens, score, leaves, alignment: align(rows, tokens),
  parts: parts.map((part) => [part.start, part.samples.length]),
}));
"""


@needs_node
@pytest.mark.parametrize("bonus", [0.0, 0.7])
def test_the_searches_of_the_page_are_ours(tmp_path: Path, bonus: float) -> None:
    rng = np.random.default_rng(3)
    tree = HuffmanTree.from_counts(range(1, 13))
    gates = rng.normal(scale=2, size=(40, 11)).astype(np.float32)
    output = GateOutput(GateTree(tree.left.astype(np.int64), tree.right.astype(np.int64)))
    rate = 1000
    loud = np.repeat(rng.random(60) > 0.4, 500)
    samples = (rng.standard_normal(len(loud)) * np.where(loud, 0.3, 1e-4)).astype(np.float32)
    given = {
        "tree": {"left": tree.left.tolist(), "right": tree.right.tolist()},
        "scores": gates.ravel().tolist(), "frames": 40, "width": 11, "count": 12, "beam": 4,
        "bonus": bonus, "samples": samples.tolist(), "rate": rate, "longest": 5.0,
    }  # fmt: skip
    script = tmp_path / "search.mjs"
    script.write_text(SEARCH.replace("SITE", SITE.as_uri()), encoding="utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    done = subprocess.run(
        [str(NODE), script], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    columns = np.arange(12)
    ctc = CtcScores(output.log_probs(gates)[None], columns, columns)
    settings = BeamSettings(beam=4, length_bonus=bonus)
    tokens, score, _ = search_prefixes(ctc, [40], settings)[0][0]
    assert tuple(found["tokens"]) == tokens
    assert found["score"] == pytest.approx(score, abs=1e-3)
    timed = align_hypothesis(ctc, 0, 40, Hypothesis(tokens, score, ()))
    assert [(unit["begin"], unit["end"]) for unit in found["alignment"]] == list(timed.frames)
    values, ids = output.topk(gates[:1], 5)
    assert [token for _, token in found["leaves"]] == ids[0].tolist()
    assert [value for value, _ in found["leaves"]] == pytest.approx(values[0].tolist(), abs=1e-5)
    wanted = [
        [round(part.start_s * rate), len(part.samples)]
        for part in split_at_pauses([samples], rate, 5.0)
    ]
    assert found["parts"] == wanted


def test_another_onnxruntime_is_refused(tmp_path: Path) -> None:
    run = make_checkpoint(tmp_path / "run")
    for name in page.ORT_FILES:
        (tmp_path / "web").mkdir(exist_ok=True)
        (tmp_path / "web" / name).write_bytes(b"another one")
    with pytest.raises(ArborvoxError, match="its checksum is another one"):
        page.export_page(run, tmp_path / "site", ort_web=tmp_path / "web")
    with pytest.raises(ArborvoxError, match="it lacks"):
        page.export_page(run, tmp_path / "site", ort_web=tmp_path)
    assert not (tmp_path / "site").exists()


def test_the_page_lists_all_that_it_needs_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_nothing(folder: Path, given: Path | None) -> None:
        folder.mkdir()

    monkeypatch.setattr(page, "_copy_ort", put_nothing)
    page.export_page(make_checkpoint(tmp_path / "run"), tmp_path / "site")
    script = (tmp_path / "site" / "sw.js").read_text(encoding="utf-8")
    for path in (tmp_path / "site").rglob("*"):
        if path.is_file() and path.name != "sw.js":
            assert f'"{path.relative_to(tmp_path / "site").as_posix()}"' in script
    assert "@" not in re.sub(r"@media", "", (tmp_path / "site/index.html").read_text("utf-8"))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def static_host(tmp_path: Path) -> Iterator[http.server.ThreadingHTTPServer]:
    """Serve the folder `site` on the loopback."""
    handler = functools.partial(_Quiet, directory=str(tmp_path / "site"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.server_close()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_page_recognizes_without_a_network(
    tmp_path: Path, static_host: http.server.ThreadingHTTPServer
) -> None:
    api: Any = pytest.importorskip("playwright.sync_api")
    run = make_checkpoint(tmp_path / "run", ctc="hierarchical", decode={"mode": "ctc-beam"})
    page.export_page(run, tmp_path / "site", precision="fp32")
    export_onnx(run, tmp_path / "export")
    rng, files = np.random.default_rng(0), []
    for number in range(10):
        length = 9_000 + 3_000 * number
        samples = 0.2 * rng.standard_normal(length) * np.sin(np.arange(length) / 700)
        files.append(tmp_path / f"{number}.wav")
        soundfile.write(files[-1], samples, 16_000, subtype="PCM_16")
    with api.sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context()
        tab, told = context.new_page(), []
        tab.on("console", lambda message: told.append((message.type, message.text)))
        tab.on("pageerror", lambda error: told.append(("error", str(error))))
        status = tab.locator("#status")
        tab.goto(f"http://127.0.0.1:{static_host.server_address[1]}/")
        api.expect(status).to_have_text(re.compile("^Ready"), timeout=120_000)
        api.expect(tab.locator("#offline")).to_be_visible(timeout=120_000)
        static_host.shutdown()
        context.set_offline(True)
        tab.reload()
        api.expect(status).to_have_text(re.compile("^Ready"), timeout=120_000)
        recognizer = load(tmp_path / "export")
        for path in files:
            tab.set_input_files("#file", path)
            api.expect(status).to_have_text(re.compile(rf"^{path.name}.* of sound"), timeout=60_000)
            words = tab.locator("article").first.locator("span").all_text_contents()
            assert " ".join(words).split() == recognizer.transcribe(path).text.split()
        browser.close()
    assert not [line for line in told if line[0] == "error"]
