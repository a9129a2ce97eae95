"""Builds `arborvox-runtime` out of the modules of Arborvox that need no torch."""

import re
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from modules import PACKAGE, file_of, runtime_modules  # noqa: E402


class BuildRuntime(build_py):
    """Copies the chosen modules, and nothing else of their packages."""

    def run(self) -> None:
        """Copy each module to its place."""
        for name in runtime_modules():
            source = file_of(name)
            target = Path(self.build_lib) / source.relative_to(PACKAGE.parent)
            self.mkpath(str(target.parent))
            self.copy_file(str(source), str(target))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """List what was copied."""
        sources = [file_of(name).relative_to(PACKAGE.parent) for name in runtime_modules()]
        return [str(Path(self.build_lib) / source) for source in sources]


version = re.search(r'VERSION = "([^"]+)"', (PACKAGE / "version.py").read_text(encoding="utf-8"))
assert version is not None
setup(version=version[1], packages=["arborvox"], package_dir={"arborvox": str(PACKAGE)},
      cmdclass={"build_py": BuildRuntime})  # fmt: skip
