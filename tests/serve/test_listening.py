"""The socket: what Vosk's clients send and expect, partial results, finals like the file's."""

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from running_server import RATE, RunningServer, speech, wav
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

openai = pytest.importorskip("openai")


def socket_of(server: RunningServer) -> str:
    return f"ws://{server.host}:{server.port}/v1/listen"


async def like_vosk(
    server: RunningServer, samples: np.ndarray, rate: int, frame_s: float, **config: Any
) -> list[dict[str, Any]]:
    """Speak as vosk-server's test.py does: an answer is awaited after each frame and after eof."""
    replies = []
    size = round(frame_s * rate)
    async with connect(socket_of(server)) as socket:
        await socket.send(json.dumps({"config": {"sample_rate": rate, **config}}))
        for start in range(0, len(samples), size):
            await socket.send(samples[start : start + size].tobytes())
            replies.append(json.loads(await socket.recv()))
        await socket.send('{"eof" : 1}')
        replies.append(json.loads(await socket.recv()))
        with pytest.raises(ConnectionClosed):
            await socket.recv()
    return replies


def text_of(replies: list[dict[str, Any]]) -> str:
    return " ".join(reply["text"] for reply in replies if reply.get("text"))


def test_a_vosk_client_is_answered_frame_by_frame(server: RunningServer) -> None:
    replies = asyncio.run(like_vosk(server, speech(8.0), RATE, 0.2, model="plain"))
    assert len(replies) == 41
    assert all(("partial" in reply) != ("text" in reply) for reply in replies)
    finals = [reply for reply in replies if "text" in reply]
    assert len(finals) == 3  # two pauses, and the end
    for reply in finals:
        assert reply["text"] == " ".join(word["word"] for word in reply["result"])
        assert all(set(word) == {"word", "start", "end", "conf"} for word in reply["result"])
    starts = [word["start"] for reply in finals for word in reply["result"]]
    assert starts == sorted(starts)
    assert any(reply.get("partial") for reply in replies)


@pytest.mark.parametrize("rate", [RATE, 48_000])
@pytest.mark.parametrize("frame_s", [0.03, 0.25, 3.0])
def test_the_final_text_is_that_of_the_file(
    server: RunningServer, rate: int, frame_s: float
) -> None:
    samples = speech(9.0, seed=7, rate=rate)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        sound = ("x.wav", wav(samples, rate))
        wanted = client.audio.transcriptions.create(file=sound, model="plain").text
    replies = asyncio.run(like_vosk(server, samples, rate, frame_s, model="plain"))
    assert text_of(replies) == wanted


def test_what_was_said_grows_while_it_is_said(server: RunningServer) -> None:
    """Drafts are not made for every frame, so nothing is sent until one has come."""

    async def hear() -> list[str]:
        texts = [""]
        async with connect(socket_of(server)) as socket:
            await socket.send('{"config": {"sample_rate": 16000, "model": "plain"}}')
            for part in np.array_split(speech(2.0), 2):
                await socket.send(part.tobytes())
                partial = json.loads(await socket.recv())["partial"]
                while len(partial) <= len(texts[-1]):
                    await socket.send(b"")
                    partial = json.loads(await socket.recv())["partial"]
                texts.append(partial)
        return texts

    lengths = [len(text) for text in asyncio.run(asyncio.wait_for(hear(), 60))]
    assert 0 == lengths[0] < lengths[1] < lengths[2]


@pytest.mark.parametrize("model", ["plain", "tree"])  # whose draft is, and is not, its final search
def test_before_a_pause_is_over_its_text_is_there(server: RunningServer, model: str) -> None:
    replies = asyncio.run(like_vosk(server, speech(8.0), RATE, 0.05, model=model))
    pauses = [n for n, reply in enumerate(replies[:-1]) if "text" in reply]
    assert len(pauses) == 2
    for place in pauses:
        before = [reply.get("partial") for reply in replies[place - 3 : place]]
        assert before == 3 * [replies[place]["text"]]


def test_alternatives_have_vosks_shape(server: RunningServer) -> None:
    replies = asyncio.run(
        like_vosk(server, speech(2.0), RATE, 0.5, model="plain", max_alternatives=3)
    )
    assert [set(each) for each in replies[-1]["alternatives"]] == [{"text", "confidence"}] * 3


def test_a_lone_byte_waits_for_the_other_half(server: RunningServer) -> None:
    async def in_odd_pieces() -> str:
        data = speech(2.0).tobytes()
        async with connect(socket_of(server)) as socket:
            await socket.send('{"config": {"sample_rate": 16000, "model": "plain"}}')
            for start in range(0, len(data), 6401):
                await socket.send(data[start : start + 6401])
                await socket.recv()
            await socket.send('{"eof": 1}')
            return str(json.loads(await socket.recv())["text"])

    whole = asyncio.run(like_vosk(server, speech(2.0), RATE, 2.0, model="plain"))
    assert asyncio.run(in_odd_pieces()) == text_of(whole)


@pytest.mark.parametrize(
    "messages",
    [
        ["no json"],
        ["[1, 2]"],
        ['{"eof": 1}'],
        [b"\0\0"],
        ['{"config": 7}'],
        ['{"config": {}}'],
        ['{"config": {"sample_rate": 1e999}}'],
        ['{"config": {"sample_rate": true}}'],
        ['{"config": {"sample_rate": 16000, "model": "/etc/passwd"}}'],
        ['{"config": {"sample_rate": 16000, "model": ["plain"]}}'],
        ['{"config": {"sample_rate": 16000, "phrase_list": ["a"]}}'],
        ['{"config": {"sample_rate": 16000, "model": "plain"}}', b"\0\0", "no json"],
        ['{"config": {"sample_rate": 16000, "model": "plain"}}', '{"config": {}}'],
        ["[" * 100_000],
    ],
)
def test_what_is_no_speech_is_told_and_hung_up_on(
    server: RunningServer, messages: list[str | bytes]
) -> None:
    async def talk(socket: ClientConnection) -> str:
        for message in messages:
            await socket.send(message)
        said = ""
        try:
            while True:
                said = str(await socket.recv())
        except ConnectionClosed as closed:
            assert closed.rcvd is not None
            assert closed.rcvd.code == 1008
        return said

    async def run() -> str:
        async with connect(socket_of(server)) as socket:
            return await talk(socket)

    assert json.loads(asyncio.run(run()))["error"]["message"]


def test_a_foreign_page_cannot_open_the_socket(server: RunningServer) -> None:
    from websockets.exceptions import InvalidStatus

    async def come_from(origin: str) -> None:
        async with connect(socket_of(server), additional_headers={"Origin": origin}):
            pass

    for origin in ("http://evil.example", f"http://127.0.0.1.evil.example:{server.port}", "null"):
        with pytest.raises(InvalidStatus):
            asyncio.run(come_from(origin))
    asyncio.run(come_from(f"http://127.0.0.1:{server.port}"))
