"""The page without a server in Chromium, on one core and with the network off.

python benchmarks/export_page.py RUN MANIFEST --ort-web FOLDER --json results/export_page.json
Texts: the page with RUN's model hears ten recordings, and so does onnxruntime with the same graph.
Speed and memory: a page of size small with fresh weights hears the recordings one after the other
as one file of ten minutes, timed from the choice of the file to the last line of text.
"""

import argparse
import functools
import http.server
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import playwright.sync_api as browsers
import soundfile
from export import fresh_checkpoint
from export_equality import spread
from publishing import print_table, publish

from arborvox import audio
from arborvox.errors import ArborvoxError
from arborvox.export.exporting import export_onnx
from arborvox.export.page import export_page
from arborvox.manifest import load_manifest
from arborvox.recognizer import load
from arborvox.report.document import Cell, Table

RATE = 16_000
LONG_S = 600.0
NUM_RECORDINGS = 10
READY_MS, HEARD_MS = 300_000, 1_800_000
SIZE = "small"
NUM_JOINED = 200


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A static host that says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Tab:
    """A page that was loaded once, in a browser that was started anew without a network."""

    def __init__(self, driver: Any, site: Path) -> None:
        handler = functools.partial(Quiet, directory=str(site))
        host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=host.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{host.server_address[1]}/"
        self.errors: list[str] = []
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._open(driver, address)
        browsers.expect(self.tab.locator("#offline")).to_be_visible(timeout=READY_MS)
        self._browser.close()
        host.shutdown()
        host.server_close()
        self._open(driver, address, offline=True)

    def close(self) -> None:
        """Leave the browser, and forget what it kept."""
        self._browser.close()
        self._profile.cleanup()

    def _open(self, driver: Any, address: str, *, offline: bool = False) -> None:
        self._browser = driver.chromium.launch_persistent_context(
            self._profile.name,
            executable_path=_chromium(),
            args=["--no-sandbox", "--disable-gpu"],
            offline=offline,
        )
        self.tab = self._browser.new_page()
        self.tab.on("console", self._note)
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.status = self.tab.locator("#status")
        self.tab.goto(address)
        self._wait("^Ready", READY_MS)

    def hear(self, path: Path) -> tuple[str, float]:
        """Open a recording; return what the page writes and the seconds until it is all there."""
        start_s = time.perf_counter()
        self.tab.set_input_files("#file", path)
        self._wait(rf"^{re.escape(path.name)}.* of sound", HEARD_MS)
        took_s = time.perf_counter() - start_s
        words = self.tab.locator("article").first.locator("span").all_text_contents()
        return " ".join(words), took_s

    def _wait(self, pattern: str, timeout_ms: int) -> None:
        browsers.expect(self.status).to_have_text(re.compile(pattern), timeout=timeout_ms)

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)


@contextmanager
def opened(site: Path) -> Iterator[Tab]:
    """Visit a page, and open it again without a network."""
    with browsers.sync_playwright() as driver:
        tab = Tab(driver, site)
        try:
            yield tab
        finally:
            tab.close()


def _chromium() -> str:
    path = shutil.which("chromium")
    if path is None:
        raise ArborvoxError("This measures Chromium, which is not installed.")
    return path


def main() -> None:
    """Compare texts, then time a long file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ort-web", type=Path)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    os.sched_setaffinity(0, {asked.core})  # Chromium inherits it
    utterances = spread(list(load_manifest(asked.manifest)), NUM_RECORDINGS)
    recordings = [Path(utterance.audio) for utterance in utterances]
    rows: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows += _compare_texts(asked.run, recordings, folder, asked.ort_web)
        joined = [Path(u.audio) for u in spread(list(load_manifest(asked.manifest)), NUM_JOINED)]
        rows += _time_long(joined, folder, asked.ort_web)
    table = Table(("what", "measured"), tuple((Cell(what), Cell(value)) for what, value in rows))
    print_table(table)
    if asked.json:
        publish(asked.json, {"page": table})


def _compare_texts(
    run: Path, recordings: Sequence[Path], folder: Path, ort_web: Path | None
) -> Iterator[tuple[str, str]]:
    for precision in ("fp32", "int8-weights", "int8"):
        site, export = folder / f"site-{precision}", folder / f"export-{precision}"
        export_page(run, site, precision=precision, ort_web=ort_web)  # type: ignore[arg-type, unused-ignore]
        export_onnx(run, export, precision=precision)  # type: ignore[arg-type, unused-ignore]
        recognizer = load(export, mode="ctc-beam", num_threads=1)
        equal = 0
        with opened(site) as tab:
            for path in recordings:
                written, _ = tab.hear(path)
                wanted = " ".join(recognizer.transcribe(path).text.split())
                equal += written == wanted
                if written != wanted:
                    print(f"{path.name}: {written!r}, but {wanted!r} by onnxruntime")
        yield f"the same text as onnxruntime, {precision}", f"{equal} of {len(recordings)}"
        yield f"console errors, {precision}", str(len(tab.errors))


def _time_long(
    recordings: Sequence[Path], folder: Path, ort_web: Path | None
) -> Iterator[tuple[str, str]]:
    site = folder / "site-long"
    export_page(fresh_checkpoint(folder / SIZE, SIZE), site, ort_web=ort_web)
    megabytes = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6
    yield f"the page's files, size {SIZE} (MB)", f"{megabytes:.1f}"
    length = int(LONG_S * RATE)
    joined = np.concatenate([audio.load(path, RATE) for path in recordings])
    noise = 0.1 * np.random.default_rng(0).standard_normal(length)
    for name, samples in (("speech", np.resize(joined, length)), ("noise without a pause", noise)):
        long = folder / f"{name.partition(' ')[0]}.wav"
        soundfile.write(long, samples, RATE, subtype="PCM_16")
        with opened(site) as tab:
            _, took_s = tab.hear(long)
            peak_mb = _peak_mb()
        yield f"ten minutes of {name}: real-time factor", f"{took_s / LONG_S:.3f}"
        yield f"ten minutes of {name}: the page's process at its peak (MB)", f"{peak_mb:.0f}"
        yield f"ten minutes of {name}: console errors", str(len(tab.errors))


def _peak_mb() -> float:
    """Return the most memory that our largest renderer ever had."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:
            continue  # it has ended
        if b"--type=renderer" in command and _is_ours(int(lines["PPid"])):
            # VmHWM:    123456 kB
            found.append(int(lines["VmHWM"].split()[0]) / 1024)
    return max(found)


def _is_ours(process: int) -> bool:
    while process > 1:
        if process == os.getpid():
            return True
        stat = Path(f"/proc/{process}/stat").read_text()
        process = int(stat.rpartition(")")[2].split()[1])
    return False


if __name__ == "__main__":
    main()
