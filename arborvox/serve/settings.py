"""What the server is told when it starts: models, addresses and limits."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from arborvox.errors import ArborvoxError

# What a model may be called in a request; never a path.
MODEL_NAME = re.compile(r"[\w.+-]{1,64}", re.ASCII)
INVENTORY_ENDING = ".txt"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
ANY_ADDRESS = frozenset({"0.0.0.0", "::", ""})
MIN_TOKEN = 16


@dataclass(frozen=True)
class Limits:
    """How much one request, and all of them together, may take."""

    upload_mb: int = 200
    duration_s: float = 7200.0  # of a recording
    parallel: int = 4  # recordings that are worked on at a time
    queue: int = 64  # more that may wait or be on their way
    time_s: float = 600.0  # a request, its upload included
    idle_s: float = 20.0  # without a byte from a client that has more to send
    sessions: int = 16  # people speaking at once
    connections: int = 512
    beam: int = 50
    alternatives: int = 10


@dataclass(frozen=True)
class ServeConfig:
    """Everything that `arborvox serve` was asked for."""

    models: dict[str, Path]
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    inventories: dict[str, Path] = field(default_factory=dict)
    examples: tuple[Path, ...] = ()
    words: Path | None = None  # the page's words in another language
    workers: int = 1
    project: Path | None = None
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        """Refuse to be open to others without a token."""
        if self.host not in LOOPBACK and self.token is None:
            raise ArborvoxError(
                f"--host {self.host} lets other machines in, so it needs a token: put one of at "
                f"least {MIN_TOKEN} characters into a file and name it with --token-file."
            )
        if self.token is not None and (len(self.token) < MIN_TOKEN or not self.token.isascii()):
            raise ArborvoxError(f"The token must be {MIN_TOKEN} ASCII characters or more.")
        if self.host in ANY_ADDRESS and not self.allowed_hosts:
            raise ArborvoxError(
                f"--host {self.host} is every address of this machine; say under which names it "
                f"will be reached: --allow-host 192.168.1.5:{self.port}, say."
            )

    @property
    def hosts(self) -> frozenset[str]:
        """What a request may have in its Host header, exactly."""
        names = {"127.0.0.1", "localhost", "[::1]"} if self.host in LOOPBACK else set()
        if self.host not in ANY_ADDRESS:
            names.add(f"[{self.host}]" if ":" in self.host else self.host)
        with_port = {f"{name}:{self.port}" for name in names}
        bare = names if self.port == 80 else set()  # a browser leaves out the usual port
        return frozenset(name.lower() for name in {*with_port, *bare, *self.allowed_hosts})


def name_models(runs: Sequence[str]) -> dict[str, Path]:
    """Read `RUN` and `NAME=RUN`; a run without a name is called as its folder is."""
    models: dict[str, Path] = {}
    for run in runs:
        name, separator, path = run.partition("=")
        if not separator or not MODEL_NAME.fullmatch(name):
            path, name = run, name_of(Path(run))
        if name in models:
            raise ArborvoxError(
                f"{models[name]} and {path} would both be called {name}; "
                f"name them, as in first={models[name]} second={path}."
            )
        models[name] = Path(path)
    return models


def name_of(run: Path) -> str:
    """Call a run as its folder, or what `arborvox run` keeps in runs/NAME/seed-0/train as NAME."""
    parts = run.absolute().parts
    if len(parts) > 3 and parts[-1] == "train" and parts[-2].startswith("seed-"):
        run = run.absolute().parents[1]
    name = re.sub(r"[^\w.+-]+", "-", run.absolute().name, flags=re.ASCII).strip("-")
    return name[:64] or "model"


def find_inventories(folder: Path | None) -> dict[str, Path]:
    """Return the inventories of a folder by their names: sah.txt is sah."""
    if folder is None:
        return {}
    if not folder.is_dir():
        raise ArborvoxError(f"There is no folder {folder} of inventories.")
    found = {path.stem: path for path in sorted(folder.glob(f"*{INVENTORY_ENDING}"))}
    if not found:
        raise ArborvoxError(f"{folder} holds no inventories; they end in {INVENTORY_ENDING}.")
    return found


def read_token(path: Path | None) -> str | None:
    """Read a token from a file that only its owner should be able to read."""
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise ArborvoxError(f"There is no token file {path}.") from None
    except UnicodeDecodeError:
        raise ArborvoxError(f"{path} is not UTF-8 text.") from None
