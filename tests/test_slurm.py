"""The template for Slurm clusters, filled in and looked over; there is no cluster to run it on."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).parent.parent / "docs/slurm.sbatch"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The template, filled in by the command that stands in it."""
    text = TEMPLATE.read_text(encoding="utf-8")
    edits = re.search(r"sed -e '([^']+)'", text)
    assert edits is not None
    done = subprocess.run(["sed", "-e", edits[1], str(TEMPLATE)], capture_output=True, check=True)
    path = tmp_path / "job.sbatch"
    path.write_bytes(done.stdout)
    return path


def test_the_rendered_template_is_a_script_of_bash(script: Path) -> None:
    body = script.read_text(encoding="utf-8")
    options = [line for line in body.splitlines() if line.startswith("#SBATCH")]
    assert len(options) > 8
    assert not re.search(r"@[A-Z]", "".join(option.removesuffix("@120") for option in options))
    assert "--requeue" in body and "TERM" in body
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    done = subprocess.run([bash, "-n", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run([shellcheck, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_preempted_job_waits_for_its_processes_and_queues_again(
    script: Path, tmp_path: Path
) -> None:
    """With stand-ins for Slurm's programs: SIGTERM is passed on, then the job is requeued."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    log, ready = tmp_path / "log", tmp_path / "ready"
    os.mkfifo(ready)
    stand_ins = {
        # Blocks on a pipe that nobody writes to until it is told to stop.
        "srun": f'echo "srun $*" >> {log}\n'
        f"trap 'kill $!; echo saved >> {log}; exit 130' TERM\n"
        f"echo go > {ready}\nread -r _ < {ready} &\nwait\n",
        "scontrol": f'echo "scontrol $*" >> {log}\necho host-1\n',
    }
    for name, body in stand_ins.items():
        path = tmp_path / name
        path.write_text(f"#!{bash}\n{body}", encoding="utf-8")
        path.chmod(0o755)
    slurm = {"SLURM_CPUS_PER_TASK": "4", "SLURM_JOB_NODELIST": "host-[1-2]", "SLURM_JOB_ID": "7"}
    environment = {**os.environ, **slurm, "SLURM_JOB_NUM_NODES": "2"}
    environment["PATH"] = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    job = subprocess.Popen([bash, str(script), "train", "recipe.yaml"], env=environment)
    assert ready.read_text() == "go\n"  # returns when srun is at work
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=60) == 0
    lines = log.read_text().splitlines()
    assert "--nnodes=2 --nproc-per-node=4" in lines[1]
    assert lines[1].endswith("-m arborvox train recipe.yaml")
    assert lines[-2:] == ["saved", "scontrol requeue 7"]
