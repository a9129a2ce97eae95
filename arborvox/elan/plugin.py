"""The folder that ELAN finds among its extensions: a descriptor, a script for each system, help.

ELAN runs a local recognizer's command in the extension's folder, often without PATH and with an
ASCII locale. It cuts the command at spaces, whatever quotes there are, so paths that may have some
stand in the scripts.
"""

import html
import shlex
import sys
from pathlib import Path

from arborvox.annotations.safe_xml import quoted
from arborvox.config import DecodeConfig
from arborvox.config.choices import DependentTier, VoiceActivity, values_of
from arborvox.console import say
from arborvox.errors import ArborvoxError
from arborvox.files import atomic_folder, write_json_atomic, write_text_atomic
from arborvox.model.checkpoint import load_checkpoint
from arborvox.version import VERSION

DESCRIPTOR, SETTINGS, HELP = "arborvox.cmdi", "settings.json", "help.html"
UNIX_SCRIPT, WINDOWS_SCRIPT = "recognize.sh", "recognize.bat"
# What the descriptor and the session call the parameters.
SOURCE, SEGMENTS, TIER_NAME, VAD, TEXT = "source", "segments", "tier_name", "vad", "text"
# Parameters of the search that name files.
_FILES = ("lm", "inventory")


def write_plugin(run: Path, out: Path, config: DecodeConfig, name: str | None = None) -> None:
    """Write the extension for a model; it finds the model and this Python where they are now."""
    out = out.absolute()
    if out.exists() and not (out / DESCRIPTOR).is_file() and (out.is_file() or any(out.iterdir())):
        raise ArborvoxError(
            f"{out} exists and is no extension of ours; name a new folder, such as {out / 'heard'}."
        )
    loaded = load_checkpoint(run)
    called = name or f"Arborvox: {loaded.recipe.name or run.absolute().name}"
    decode = config.model_dump(mode="json", exclude_unset=True)
    for key in _FILES:
        path: Path | None = getattr(config, key)
        if path is not None:
            decode[key] = str(path.absolute())
    with atomic_folder(out) as part:
        write_text_atomic(part / DESCRIPTOR, _descriptor(called, config.over(loaded.recipe.decode)))
        write_text_atomic(part / HELP, _help(called))
        write_json_atomic(part / SETTINGS, {"run": str(run.absolute()), "decode": decode})
        write_text_atomic(part / UNIX_SCRIPT, _unix_script())
        (part / UNIX_SCRIPT).chmod(0o755)
        write_text_atomic(part / WINDOWS_SCRIPT, _windows_script())
    say(f"wrote {out}; copy it into the folder `extensions` of ELAN and start ELAN anew")


def _descriptor(called: str, config: DecodeConfig) -> str:
    """Describe the recognizer as ELAN's parser reads it; parameters without `info` are dropped."""
    activities = " ".join(values_of(VoiceActivity))
    outputs = "".join(
        f'      <output level="advanced" type="tier" optional="true" mimetypes="text/xml" '
        f'info="A tier of {part} (optional)">{part}</output>\n'
        for part in values_of(DependentTier)
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<CMD CMDVersion="1.1" xmlns="http://www.clarin.eu/cmd/">
  <Header/>
  <Resources>
    <ResourceProxyList/>
    <JournalFileProxyList/>
    <ResourceRelationList/>
  </Resources>
  <Components>
    <RECOGNIZER>
      <recognizer recognizerType="local" runLinux="./{UNIX_SCRIPT}" runMac="./{UNIX_SCRIPT}" \
runWin="cmd /c .\\{WINDOWS_SCRIPT}" info={quoted(called)}>arborvox</recognizer>
      <documentation>{HELP}</documentation>
      <input level="basic" type="audio" optional="false" mimetypes="audio/x-wav audio/wav" \
info="The recording">{SOURCE}</input>
      <input level="basic" type="tier" optional="true" mimetypes="text/xml" \
info="Only what this tier marks (optional; else pauses are found)">{SEGMENTS}</input>
      <textparam level="basic" default="arborvox" \
info="The name of the new tier, without spaces">{TIER_NAME}</textparam>
      <textparam level="advanced" convoc={quoted(activities)} default={quoted(config.vad)} \
info="How pauses are found">{VAD}</textparam>
      <output level="basic" type="tier" optional="false" mimetypes="text/xml" \
info="What is said">{TEXT}</output>
{outputs}    </RECOGNIZER>
  </Components>
</CMD>
"""


def _help(called: str) -> str:
    return f"""<!DOCTYPE html>
<html><head><meta charset="UTF-8"><title>{html.escape(called)}</title></head><body>
<h1>{html.escape(called)}</h1>
<p>A speech recognizer of Arborvox {VERSION}. It runs on this computer; no recording leaves it.</p>
<ol>
<li>Choose the recording, and a tier whose annotations are to be heard, if there is one. Without it
the recording is cut at its pauses.</li>
<li>Name a file for the new tier, and files for its words, units and confidence if you want
them.</li>
<li>Start. When it is done, ELAN offers to make tiers of the files.</li>
</ol>
<p>If it fails, the report says why.</p>
</body></html>
"""


def _unix_script() -> str:
    return (
        "#!/bin/sh\n"
        "# ELAN starts this; parameters come on standard input.\n"
        "export PYTHONUTF8=1\n"
        'export PATH="${PATH:-/usr/bin:/bin}"\n'
        'cd "${0%/*}" || exit 1\n'
        f"exec {shlex.quote(sys.executable)} -m arborvox.elan .\n"
    )


def _windows_script() -> str:
    python = sys.executable.replace("%", "%%")
    lines = (
        "@echo off",
        "rem ELAN starts this; parameters come on standard input.",
        "chcp 65001 > nul",
        "set PYTHONUTF8=1",
        'cd /d "%~dp0"',
        f'"{python}" -m arborvox.elan .',
    )
    return "".join(f"{line}\r\n" for line in lines)
