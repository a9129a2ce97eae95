"""`arborvox export --to page`: a folder for any static host that recognizes in the browser."""

import hashlib
import html
import json
import subprocess
import tarfile
import tempfile
from importlib.resources import files
from pathlib import Path

from arborvox.config.choices import ExportPrecision
from arborvox.console import say
from arborvox.digests import checksum_file
from arborvox.errors import ArborvoxError
from arborvox.export.exporting import check_folder, describe
from arborvox.export.graphs import EncoderGraph, make_graphs
from arborvox.export.onnx_files import require_onnx, trace, write_model
from arborvox.files import atomic_folder, write_json_atomic, write_text_atomic
from arborvox.model.checkpoint import load_checkpoint
from arborvox.version import VERSION

# Pinned: another release would be other code in the page. Checked by these, wherever it comes from.
ORT_VERSION = "1.30.0"
ORT_FILES = {  # in `dist`: what it is called on the page, and its SHA-256
    "ort.wasm.bundle.min.mjs": (
        "ort.js",
        "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    ),
    "ort-wasm-simd-threaded.wasm": (
        "ort.wasm",
        "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
    ),
}
MARK = "sw.js"
PLAIN = ("app.js", "recorder.js", "search.js", "segments.js", "transcript.js", "worker.js")
DESCRIPTION, MODEL = "model/description.json", "model/encoder.onnx"
NPM_TIMEOUT_S = 600
# Products in 8 bits magnify the last bit, in which browsers differ: a letter in some sentences.
PRECISION: ExportPrecision = "int8-weights"


def export_page(
    run: Path,
    out: Path,
    *,
    precision: ExportPrecision = PRECISION,
    license: str | None = None,
    ort_web: Path | None = None,
) -> None:
    """Write a page with a run's encoder and CTC branch, and all that it needs to run."""
    require_onnx()
    loaded = load_checkpoint(run)
    if loaded.model.ctc is None:
        raise ArborvoxError(f"{loaded.folder} has no CTC branch, which is what the page searches.")
    check_folder(out, mark=MARK)
    loaded.model.requires_grad_(False)
    with atomic_folder(out.absolute()) as part:
        _copy_ort(part / "ort", ort_web)
        graph = make_graphs(loaded.model)["encoder"]
        assert isinstance(graph.module, EncoderGraph)
        known = describe(loaded, graph.module.input.min_samples, precision, False, license)
        (part / "model").mkdir()
        write_model(trace(graph), part / MODEL, precision, {"part": "encoder"})
        known["sha256"] = checksum_file(part / MODEL)
        known["output_tree"] = None  # the page reads CTC alone
        write_json_atomic(part / DESCRIPTION, known)
        stated = known["license"]
        shown = "" if stated == "not stated" else f"The model's licence: {stated}."
        words = {"NAME": known["name"], "ARBORVOX": VERSION, "ORT": ORT_VERSION, "LICENSE": shown}
        page = _template("index.html")
        for key, value in words.items():
            page = page.replace(f"@{key}@", html.escape(value))
        write_text_atomic(part / "index.html", page)
        for name in PLAIN:
            write_text_atomic(part / name, _template(name))
        _write_service_worker(part)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    say(f"wrote {out}: {size / 1e6:.1f} MB; put it on any static host")


def _template(name: str) -> str:
    return (files("arborvox.export") / "site" / name).read_text(encoding="utf-8")


def _write_service_worker(folder: Path) -> None:
    """List all files of the page, under a name that changes with any of them."""
    names = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name}:{checksum_file(folder / name)}\n".encode())
    script = _template(MARK).replace("@VERSION@", digest.hexdigest()[:16])
    script = script.replace("@FILES@", json.dumps(["./", *names], indent=2))
    write_text_atomic(folder / MARK, script)


def _copy_ort(folder: Path, given: Path | None) -> None:
    """Put onnxruntime-web beside the page, if it is the very release that was pinned."""
    folder.mkdir()
    if given is not None:
        _copy_checked(_dist(given), folder)
        return
    with tempfile.TemporaryDirectory(prefix="arborvox-") as scratch:
        _copy_checked(_ask_npm(Path(scratch)), folder)


def _dist(given: Path) -> Path:
    """Return the folder that holds the files: the one given, or `dist` in it."""
    for place in (given, given / "dist", given / "package" / "dist"):
        if all((place / name).is_file() for name in ORT_FILES):
            return place
    raise ArborvoxError(
        f"{given} is not onnxruntime-web {ORT_VERSION}: it lacks {' or '.join(ORT_FILES)}."
    )


def _copy_checked(dist: Path, folder: Path) -> None:
    for name, (target, checksum) in ORT_FILES.items():
        data = (dist / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != checksum:
            raise ArborvoxError(
                f"{dist / name} is not that of onnxruntime-web {ORT_VERSION}: its checksum is "
                f"another one."
            )
        (folder / target).write_bytes(data)


def _ask_npm(scratch: Path) -> Path:
    package = f"onnxruntime-web@{ORT_VERSION}"
    hint = f"or unpack {package} yourself and give its folder with --ort-web"
    try:
        subprocess.run(
            ["npm", "pack", "--silent", package],
            cwd=scratch,
            check=True,
            capture_output=True,
            timeout=NPM_TIMEOUT_S,
        )
    except FileNotFoundError:
        raise ArborvoxError(f"The page needs {package}: install npm, {hint}.") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise ArborvoxError(f"npm could not fetch {package}; try again later, {hint}.") from None
    archive = next(scratch.glob("*.tgz"))
    with tarfile.open(archive) as packed:
        wanted = [f"package/dist/{name}" for name in ORT_FILES]
        members = [member for member in packed.getmembers() if member.name in wanted]
        packed.extractall(scratch, members=members, filter="data")
    return _dist(scratch)
