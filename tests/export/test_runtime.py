"""The runtime needs no torch: by what its modules import, and in an environment without it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoints import make_checkpoint

from arborvox.decode.clusters import cluster_functions, plain_clusters, plainly_unspaced
from arborvox.export.exporting import export_onnx

ROOT = Path(__file__).parent.parent.parent
_spec = importlib.util.spec_from_file_location("modules", ROOT / "runtime" / "modules.py")
assert _spec is not None and _spec.loader is not None
modules = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(modules)

ALLOWED = {"numpy", "onnxruntime", "soundfile", "soxr"}
TOO_MUCH = ("torch", "numba", "regex", "rich", "pydantic", "filelock", "lhotse", "sentencepiece")


def test_the_runtime_imports_no_other_library() -> None:
    names = modules.runtime_modules()
    libraries = {part.split(".")[0] for name in names for part in modules.imported(name)}
    assert libraries - {"arborvox"} - set(sys.stdlib_module_names) <= ALLOWED


def test_an_export_runs_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    export_onnx(make_checkpoint(tmp_path / "run", max_duration_s=2.0), tmp_path / "export")
    code = (
        "import sys\n"
        f"for name in {TOO_MUCH!r}: sys.modules[name] = None\n"
        "import numpy as np, arborvox\n"
        "samples = 0.1 * np.random.default_rng(0).standard_normal(50_000)\n"
        "for mode in ('ctc-greedy', 'ctc-beam', 'joint', 'rescoring', 'mbr'):\n"
        f"    recognizer = arborvox.load({str(tmp_path / 'export')!r}, mode=mode, beam=3)\n"
        "    print(mode, len(recognizer.transcribe(samples, rate=16_000).segments))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 5


@pytest.mark.parametrize(
    "text",
    [
        "我用arborvox",
        "สวัสดีครับ",
        "ភាសាខ្មែរ",
        "မြန်မာ",
        "café",
        "ひらがなカタカナー",
        "naïve ŋ̊a",
        "कि",
    ],
)
def test_clusters_are_the_same_without_regex(text: str) -> None:
    clusters, is_unspaced = cluster_functions()
    found = plain_clusters(text)
    assert "".join(found) == text
    if text not in ("ភាសាខ្មែរ", "မြန်မာ"):  # whose stacked consonants newer rules join
        assert found == clusters(text)
    assert [plainly_unspaced(each) for each in found] == [is_unspaced(each) for each in found]


@pytest.mark.slow
def test_the_distribution_is_small_and_recognizes(tmp_path: Path) -> None:
    export_onnx(make_checkpoint(tmp_path / "run"), tmp_path / "export")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, ROOT / "runtime"], check=True)
    libraries = next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages"
    # pip and its kin were there before, and Python writes its bytecode as it runs.
    own = [
        path
        for path in libraries.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
        and not path.relative_to(libraries).parts[0].startswith(("pip", "setuptools", "pkg_"))
    ]  # fmt: skip
    assert sum(path.stat().st_size for path in own) < 150e6
    code = (
        "import arborvox, numpy as np\n"
        f"recognizer = arborvox.load({str(tmp_path / 'export')!r})\n"
        "print(recognizer.transcribe(np.ones(16000) * 0.1, rate=16000).duration_s)\n"
    )
    done = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "1.0", done.stderr
