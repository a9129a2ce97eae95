"""Thousands of requests, a third of them broken: no fault, no leak, nothing left behind."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hostile_clients import GOOD, Clients, multipart
from running_server import RunningServer

TOGETHER = 12
WARMING = 1500  # requests until every buffer has its size


@pytest.fixture
def patient(runs: dict[str, Path], tmp_path: Path) -> Iterator[RunningServer]:
    """A server that soon loses patience with who sends nothing."""
    options = ["--idle-s=1", "--max-upload-mb=4", "--max-duration-s=60", "--parallel=4"]
    running = RunningServer([f"plain={runs['plain']}", *options, "--sessions=64"], tmp_path)
    yield running
    assert running.stop() == 0


def memory_mb(server: RunningServer) -> float:
    """Return what the server and its processes hold."""
    process = psutil.Process(server.process.pid)
    family = [process, *process.children(recursive=True)]
    return sum(each.memory_info().rss for each in family) / 2**20


def press(clients: Clients, first: int, last: int) -> None:
    """Send the requests of these numbers, a dozen at a time."""

    async def run() -> None:
        numbers = iter(range(first, last))

        async def work() -> None:
            for number in numbers:
                await clients.send(number)

        await asyncio.gather(*(work() for _ in range(TOGETHER)))

    asyncio.run(run())


def check(server: RunningServer, clients: Clients) -> None:
    """After all of it the next good request is served."""
    assert "500" not in clients.statuses, server.log[-5000:]
    assert '"event": "fault"' not in server.log
    assert {"200", "400", "408", "413", "415", "left", "ws 1000", "ws 1008"} <= set(
        clients.statuses
    )
    assert asyncio.run(clients.post(multipart(GOOD[0]))) == "200"
    assert not server.left_files


def test_hundreds_of_requests_break_nothing(patient: RunningServer) -> None:
    clients = Clients(patient.host, patient.port)
    press(clients, 0, 300)
    check(patient, clients)


@pytest.mark.slow
def test_ten_thousand_requests_leave_no_trace(patient: RunningServer) -> None:
    clients = Clients(patient.host, patient.port)
    press(clients, 0, WARMING)
    before_mb = memory_mb(patient)
    press(clients, WARMING, WARMING + 10_000)
    after_mb = memory_mb(patient)
    print(f"{before_mb:.0f} MB before, {after_mb:.0f} MB after; {clients.statuses}")
    assert after_mb < 1.05 * before_mb
    check(patient, clients)
