"""OpenAI's own client, unmodified, gets what it asks for."""

import json
from collections.abc import Iterator

import pytest
from running_server import RunningServer, speech, wav

openai = pytest.importorskip("openai")

SOUND = ("x.wav", wav(speech(5.0)))


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator["openai.OpenAI"]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def text(client: "openai.OpenAI") -> str:
    return client.audio.transcriptions.create(file=SOUND, model="plain").text


def test_models_are_listed(client: "openai.OpenAI") -> None:
    assert [model.id for model in client.models.list()] == ["tree", "plain"]
    assert client.models.retrieve("plain").owned_by == "arborvox"


@pytest.mark.parametrize("kind", ["json", "text", "srt", "vtt", "verbose_json"])
def test_every_response_format_is_given(client: "openai.OpenAI", text: str, kind: str) -> None:
    found = client.audio.transcriptions.create(file=SOUND, model="plain", response_format=kind)
    if kind in ("json", "verbose_json"):
        assert found.text == text
    elif kind == "text":
        assert found.split() == text.split()
    else:
        assert " --> " in found
        assert found.startswith({"srt": "1\n", "vtt": "WEBVTT\n"}[kind])
        cues = [line for line in found.splitlines() if "-->" not in line and not line.isdigit()]
        written = " ".join(cues[2 if kind == "vtt" else 0 :]).split()
        assert "".join(written).replace("&amp;", "&") == "".join(text.split())


def test_verbose_answers_have_all_that_the_typed_client_requires(client: "openai.OpenAI") -> None:
    """The client does not check by itself: its own types do here."""
    from openai.types.audio import TranscriptionVerbose

    for asked in ({}, {"timestamp_granularities": ["word", "segment"]}):
        found = client.audio.transcriptions.create(
            file=SOUND, model="plain", response_format="verbose_json", **asked
        )
        TranscriptionVerbose.model_validate(found.model_dump(), strict=True)
        assert found.duration == 5.0
        assert found.language == "x-x"
        assert len(found.segments) == 2  # there is a pause
        assert found.text == " ".join(segment.text for segment in found.segments)
        assert (found.words is not None) == bool(asked)
    words = client.audio.transcriptions.create(
        file=SOUND, model="plain", response_format="verbose_json", timestamp_granularities=["word"]
    )
    assert words.segments is None
    assert " ".join(word.word for word in words.words) == words.text
    assert all(0 <= word.start <= word.end <= 5.1 for word in words.words)


def test_streamed_deltas_add_up(client: "openai.OpenAI", text: str) -> None:
    events = list(client.audio.transcriptions.create(file=SOUND, model="plain", stream=True))
    kinds = [event.type for event in events]
    assert kinds == ["transcript.text.delta", "transcript.text.delta", "transcript.text.done"]
    assert "".join(event.delta for event in events[:-1]) == text == events[-1].text


def test_language_and_inventory_bound_what_is_written(client: "openai.OpenAI") -> None:
    found = client.audio.transcriptions.create(
        file=SOUND, model="plain", language="x-x", extra_body={"inventory": "ab"}
    )
    assert set(found.text) <= set("ab ")
    found = client.audio.transcriptions.create(
        file=SOUND, model="tree", language="es", response_format="verbose_json",
        extra_body={"mode": "ctc-greedy"},
    )  # fmt: skip
    assert found.language == "es"


def test_alternatives_come_with_scores_that_fall(client: "openai.OpenAI") -> None:
    found = client.audio.transcriptions.create(
        file=SOUND, model="plain", response_format="verbose_json",
        extra_body={"mode": "ctc-beam", "beam": "5", "alternatives": "4"},
    )  # fmt: skip
    for segment in found.segments:
        scores = [each["score"] for each in segment.alternatives]
        assert len(scores) == 4
        assert scores == sorted(scores, reverse=True)
        assert segment.alternatives[0]["text"] == segment.text


@pytest.mark.parametrize("mode", ["ctc-greedy", "attention-greedy"])
def test_a_path_multiplies_to_its_probability(client: "openai.OpenAI", mode: str) -> None:
    found = client.audio.transcriptions.create(
        file=("x.wav", wav(speech(2.0))), model="tree", response_format="verbose_json",
        language="ca", extra_body={"mode": mode, "paths": "true"},
    )  # fmt: skip
    units = [unit for segment in found.segments for unit in segment.units]
    assert units
    for unit in units:
        product = 1.0
        for _, _, probability in unit["turns"]:
            product *= probability
        assert product == pytest.approx(unit["probability"], abs=2e-3)
        assert all(probability <= 1.0 for _, probability in unit["rivals"])


def test_a_softmax_has_rivals_and_no_path(client: "openai.OpenAI") -> None:
    found = client.audio.transcriptions.create(
        file=SOUND, model="plain", response_format="verbose_json", extra_body={"paths": "true"}
    )
    unit = found.segments[0].units[0]
    assert unit["turns"] == []
    assert unit["rivals"]


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"response_format": "xml"}, "response_format"),
        ({"language": "xx"}, "language"),
        ({"temperature": 0.7}, "temperature"),
        ({"prompt": "Bon dia"}, "prompt"),
        ({"response_format": "srt", "stream": True}, "stream"),
        ({"timestamp_granularities": ["word"]}, "timestamp_granularities[]"),
        ({"extra_body": {"inventory": "../ab"}}, "inventory"),
        ({"extra_body": {"beam": "1000000"}}, "beam"),
        ({"extra_body": {"mode": "joint"}}, "mode"),
        ({"extra_body": {"alternatives": "2"}}, "alternatives"),
        ({"extra_body": {"colour": "red"}}, "colour"),
        ({"file": ("x.wav", b"no sound at all")}, "file"),
        ({"file": ("x.wav", b"")}, "file"),
        ({"file": ("x.wav", wav(speech(61.0)))}, "file"),
        ({"file": ("x.wav", wav(speech(2.0))[:20_000])}, "file"),
    ],
)
def test_what_is_refused_is_named_in_openais_shape(
    client: "openai.OpenAI", wrong: dict[str, object], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.audio.transcriptions.create(**{"file": SOUND, "model": "plain", **wrong})
    error = caught.value
    assert (error.param, error.type) == (param, "invalid_request_error")
    assert error.body["message"].endswith(".")
    assert error.response.headers["x-request-id"]


def test_unknown_models_are_not_found(client: "openai.OpenAI") -> None:
    for name in ("whisper-1", "../../etc/passwd", "/root"):
        with pytest.raises(openai.NotFoundError) as caught:
            client.audio.transcriptions.create(file=SOUND, model=name)
        assert caught.value.code == "model_not_found"


def test_what_would_change_nothing_is_taken(client: "openai.OpenAI", text: str) -> None:
    found = client.audio.transcriptions.create(
        file=SOUND, model="plain", temperature=0, prompt="", chunking_strategy="auto"
    )
    assert found.text == text


def test_formats_of_other_programs(client: "openai.OpenAI", server: RunningServer) -> None:
    for kind, start in (("eaf", "<?xml"), ("textgrid", 'File type = "ooTextFile"')):
        found = client.audio.transcriptions.create(file=SOUND, model="plain", response_format=kind)
        assert str(found).startswith(start)
    assert not server.left_files


def test_nothing_that_was_said_is_logged(server: RunningServer, text: str) -> None:
    for line in server.log.splitlines():
        if line.startswith("{"):
            assert {"time", "level", "event"} <= set(json.loads(line))
    assert text not in server.log
    assert "x.wav" not in server.log
