"""The same perplexity as KenLM's own estimator, which is built from a source folder for this."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from arborvox.tokens import TextCorpus

# How lmplz is called and compared with stands beside the benchmark that does both too.
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from lmplz import SETTINGS, Setting, compare

LARGEST_DIFFERENCE = 0.005

pytestmark = [pytest.mark.slow, pytest.mark.real_data]


@pytest.fixture(scope="module")
def kenlm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of KenLM's programs, built from the source that KENLM_SOURCE names."""
    source = os.environ.get("KENLM_SOURCE")
    if not source:
        pytest.skip("set KENLM_SOURCE to a folder of KenLM's source to compare with lmplz")
    missing = [program for program in ("cmake", "make", "c++") if not shutil.which(program)]
    if missing:
        pytest.skip(f"KenLM cannot be built without {', '.join(missing)}")
    build = tmp_path_factory.mktemp("kenlm")
    steps = [
        ["cmake", "-S", source, "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"],
        ["cmake", "--build", str(build), "--target", "lmplz", "query"],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"KenLM cannot be built here: {done.stderr.strip()[-300:]}")
    return build / "bin"


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_perplexity_is_that_of_lmplz(
    setting: Setting, kenlm: Path, data_root: Path, tmp_path: Path
) -> None:
    found = compare(kenlm, TextCorpus([data_root / "text"]), setting, tmp_path)
    assert found.ours == pytest.approx(found.theirs, rel=LARGEST_DIFFERENCE)
    assert found.ours_read_by_query == pytest.approx(found.theirs, rel=LARGEST_DIFFERENCE)
