"""The receiver on the wire: logs and metrics, who may send, and what there is no room for."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from spanfuse_processor.config import OtlpReceiver as Settings
from spanfuse_processor.config import load_config
from spanfuse_processor.errors import ConfigError, UnavailableError
from spanfuse_processor.otlp import grpc_server, room
from spanfuse_processor.otlp.export import ExportResult
from spanfuse_processor.otlp.receiver import OtlpReceiver
from tests.otlp.fixtures import chat, json_bytes, protobuf_bytes, wrapped
from tests.otlp.test_logs import asked
from tests.otlp.test_logs import json_bytes as json_logs
from tests.otlp.test_logs import protobuf_bytes as protobuf_logs
from tests.otlp.test_receiver import JSON, PROTOBUF, Sink, _grpc, chat_request, exports, serve, settings
from tests.services.certificates import Certificates

LOGS, METRICS = "logs.v1.LogsService", "metrics.v1.MetricsService"


def test_logs_are_taken_over_both_protocols_in_both_encodings() -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        data = protobuf_logs(asked())
        zipped = PROTOBUF | {"content-encoding": "gzip"}
        assert (await client.post("/v1/logs", content=data, headers=PROTOBUF)).status_code == 200
        assert (await client.post("/v1/logs", content=gzip.compress(data), headers=zipped)).status_code == 200
        assert (await client.post("/v1/logs", content=json_logs(asked()), headers=JSON)).status_code == 200
        await _grpc(receiver, data, service=LOGS)
        assert sink.logged == [asked()] * 4
        assert sink.requests == []

    serve(scenario)


def test_metrics_are_answered() -> None:
    async def scenario(receiver: OtlpReceiver, _: Sink, client: httpx.AsyncClient) -> None:
        answer = await client.post("/v1/metrics", content=b'{"resourceMetrics": []}', headers=JSON)
        assert (answer.status_code, answer.json()) == (200, {})
        assert (await client.post("/v1/metrics", content=b"\x0a\x00", headers=PROTOBUF)).content == b""
        assert await _grpc(receiver, b"\x0a\x00", service=METRICS) == b""

    serve(scenario)


def test_logs_that_were_rejected_are_told_as_such() -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        sink.result = ExportResult(3, "why")
        answer = await client.post("/v1/logs", content=json_logs(asked()), headers=JSON)
        assert answer.json() == {"partialSuccess": {"rejectedLogRecords": "3", "errorMessage": "why"}}
        answered = ExportLogsServiceResponse.FromString(await _grpc(receiver, protobuf_logs(asked()), service=LOGS))
        assert answered.partial_success.rejected_log_records == 3

    serve(scenario)


def test_a_service_that_is_not_served_is_unimplemented() -> None:
    async def scenario(receiver: OtlpReceiver, _: Sink, __: httpx.AsyncClient) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _grpc(receiver, b"\x0a\x00", service="profiles.v1.ProfilesService")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    serve(scenario)


DEEP = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"k","value":%s}]}]}]}]}'
NESTED_JSON = DEEP % (b'{"arrayValue":{"values":[' * 3000 + b"]}}" * 3000)
STRING_ENUMS = json_bytes(chat()).replace(b'"kind": 3', b'"kind": "SPAN_KIND_CLIENT"')


def nested_protobuf(levels: int) -> bytes:
    """Arrays within arrays, in an attribute of the resource of a request."""
    return wrapped(b"", *(0x0A, 0x2A) * levels, 0x12, 0x0A, 0x0A, 0x0A)


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs"])
@pytest.mark.parametrize(
    ("headers", "data", "status"),
    [
        pytest.param(PROTOBUF, protobuf_bytes(chat())[:-3], 400, id="truncated protobuf"),
        pytest.param(PROTOBUF, nested_protobuf(500), 400, id="nested protobuf"),
        pytest.param(JSON, NESTED_JSON, 400, id="nested JSON"),
        pytest.param(JSON, protobuf_bytes(chat()), 400, id="protobuf as JSON"),
        pytest.param(PROTOBUF, json_bytes(chat()), 400, id="JSON as protobuf"),
        pytest.param(JSON | {"content-encoding": "gzip"}, json_bytes(chat()), 400, id="not gzipped"),
        pytest.param(JSON | {"content-encoding": "gzip"}, gzip.compress(b"{}")[:-9] + b"x" * 9, 400, id="bad gzip"),
        pytest.param({"content-type": "application/grpc"}, b"x", 415, id="wrong type"),
        pytest.param(JSON | {"content-encoding": "zstd"}, b"x", 415, id="other compression"),
    ],
)
def test_what_is_no_request_is_refused_with_a_status_in_its_type(
    path: str, headers: dict[str, str], data: bytes, status: int
) -> None:
    async def scenario(_: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        answer = await client.post(path, content=data, headers=headers)
        assert answer.status_code == status
        if "json" in headers["content-type"]:
            assert (answer.headers["content-type"], answer.json()["code"]) == ("application/json", 3)
        else:
            assert answer.headers["content-type"] == "application/x-protobuf"
            assert status_pb2.Status.FromString(answer.content).code == 3
        assert sink.requests == []

    serve(scenario)


@pytest.mark.parametrize(
    "data", [STRING_ENUMS, json_bytes(chat()).replace(b"gpt-4o", b"\xff\xfe"), json_bytes(chat())[:-1] + b',"new":[1]}']
)
def test_json_that_others_do_send_is_taken(data: bytes) -> None:
    """Enums by name, as the Collector takes them; bytes that are no UTF-8; fields that nobody knows."""

    async def scenario(_: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        assert (await client.post("/v1/traces", content=data, headers=JSON)).status_code == 200
        assert len(sink.requests) == 1

    serve(scenario)


@pytest.mark.parametrize("data", [protobuf_bytes(chat())[:-3], nested_protobuf(500), b"\x1f\x8b" + b"x" * 50])
@pytest.mark.parametrize("service", ["trace.v1.TraceService", LOGS])
def test_what_is_no_request_is_an_invalid_argument(service: str, data: bytes) -> None:
    async def scenario(receiver: OtlpReceiver, _: Sink, __: httpx.AsyncClient) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _grpc(receiver, data, service=service)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    serve(scenario)


def retry_info(error: grpc.aio.AioRpcError) -> error_details_pb2.RetryInfo:
    found = dict(error.trailing_metadata())["grpc-status-details-bin"]
    info = error_details_pb2.RetryInfo()
    assert status_pb2.Status.FromString(found).details[0].Unpack(info)
    return info


def test_a_grpc_client_is_told_when_to_come_back() -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, _: httpx.AsyncClient) -> None:
        sink.error = UnavailableError("no broker")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _grpc(receiver, chat_request())
        assert (caught.value.code(), retry_info(caught.value).retry_delay.seconds) == (grpc.StatusCode.UNAVAILABLE, 1)

    serve(scenario)


def test_the_bytes_of_all_requests_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over both protocols; who finds no room is told to come back, and once there is some, is taken."""
    monkeypatch.setattr(room, "MAX_BYTES", 1_000_000)
    monkeypatch.setattr(grpc_server, "MAX_REQUEST_BYTES", 950_000)
    large = json_bytes(chat(output="x" * 900_000))

    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        sink.gate = asyncio.Event()
        first = asyncio.create_task(client.post("/v1/traces", content=large, headers=JSON))
        await asyncio.wait_for(sink.entered.wait(), 5)
        zipped = JSON | {"content-encoding": "gzip"}
        for body, headers in ((large, JSON), (gzip.compress(large), zipped)):
            answer = await client.post("/v1/traces", content=body, headers=headers)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        again = protobuf_bytes(chat(output="x" * 900_000))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _grpc(receiver, again)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert retry_info(caught.value).retry_delay.seconds == 1
        small = asyncio.create_task(client.post("/v1/traces", content=json_bytes(chat()), headers=JSON))
        sink.gate.set()
        assert (await first).status_code == (await small).status_code == 200
        assert (await client.post("/v1/traces", content=large, headers=JSON)).status_code == 200
        await _grpc(receiver, again)

    serve(scenario)


def test_a_grpc_client_that_never_sends_its_request_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "BODY_TIMEOUT_S", 0.2)
    monkeypatch.setattr(grpc_server, "MAX_READS", 1)

    async def scenario(receiver: OtlpReceiver, _: Sink, __: httpx.AsyncClient) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{receiver.grpc_port}") as channel:
            idle = channel.stream_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")()
            assert await asyncio.wait_for(idle.code(), 5) is grpc.StatusCode.UNAVAILABLE
        await _grpc(receiver, chat_request())

    serve(scenario)


TOKEN = "s3cret-token"
AUTH = {"bearer_token": TOKEN}


@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"])
def test_without_the_token_nothing_is_taken(given: str | None) -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        headers = {} if given is None else {"authorization": given}
        for path in ("/v1/traces", "/v1/logs", "/v1/metrics"):
            answer = await client.post(path, content=json_bytes(chat()), headers=JSON | headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert answer.json()["code"] == 16
        for service in ("trace.v1.TraceService", LOGS, METRICS):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await _grpc(receiver, b"\x0a\x00", service=service, metadata=tuple(headers.items()))
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert TOKEN not in str(caught.value)
        assert sink.requests == []

    serve(scenario, auth=AUTH)


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer  {TOKEN}"])
def test_with_the_token_all_is_taken(given: str) -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, client: httpx.AsyncClient) -> None:
        headers = JSON | {"authorization": given}
        assert (await client.post("/v1/traces", content=json_bytes(chat()), headers=headers)).status_code == 200
        await _grpc(receiver, chat_request(), metadata=(("authorization", given),))
        assert len(sink.requests) == 2

    serve(scenario, auth=AUTH)


def test_the_token_is_never_shown() -> None:
    found = settings(auth=AUTH)
    assert TOKEN not in f"{found!r} {found} {found.model_dump_json()}"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def tls_of(certificates: Certificates, *, mutual: bool) -> dict[str, str]:
    own = {"cert_file": str(certificates.server), "key_file": str(certificates.server)}
    return own | ({"client_ca_file": str(certificates.cafile)} if mutual else {})


@pytest.mark.parametrize("mutual", [False, True])
def test_both_protocols_speak_tls(certificates: Certificates, mutual: bool) -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, _: httpx.AsyncClient) -> None:
        context = ssl.create_default_context(cafile=certificates.cafile)
        authority = certificates.cafile.read_bytes()
        pair: tuple[bytes, ...] = ()
        if mutual:
            context.load_cert_chain(certificates.certfile, certificates.keyfile)
            pair = (certificates.keyfile.read_bytes(), certificates.certfile.read_bytes())
        async with httpx.AsyncClient(verify=context, timeout=20) as client:
            url = f"https://127.0.0.1:{receiver.http_port}/v1/traces"
            assert (await client.post(url, content=json_bytes(chat()), headers=JSON)).status_code == 200
        await _grpc(receiver, chat_request(), tls=grpc.ssl_channel_credentials(authority, *pair))
        assert len(sink.requests) == 2

    serve(scenario, tls=tls_of(certificates, mutual=mutual))


def test_a_client_without_a_certificate_is_not_let_in_where_one_is_asked_for(certificates: Certificates) -> None:
    async def scenario(receiver: OtlpReceiver, sink: Sink, plain: httpx.AsyncClient) -> None:
        context = ssl.create_default_context(cafile=certificates.cafile)
        async with httpx.AsyncClient(verify=context, timeout=20) as client:
            url = f"https://127.0.0.1:{receiver.http_port}/v1/traces"
            with pytest.raises(httpx.TransportError):
                await client.post(url, content=json_bytes(chat()), headers=JSON)
        with pytest.raises(httpx.TransportError):
            await plain.post("/v1/traces", content=json_bytes(chat()), headers=JSON)
        credentials = grpc.ssl_channel_credentials(certificates.cafile.read_bytes())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _grpc(receiver, chat_request(), tls=credentials)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert sink.requests == []

    serve(scenario, tls=tls_of(certificates, mutual=True))


STRANGERS = """
import asyncio, sys
from spanfuse_processor.config import OtlpReceiver as Settings
from spanfuse_processor.config import load_config
from spanfuse_processor.otlp.receiver import OtlpReceiver

async def main():
    tls = {"cert_file": sys.argv[1], "key_file": sys.argv[1], "client_ca_file": sys.argv[2]}
    protocols = {name: {"endpoint": "127.0.0.1:0", "tls": tls} for name in ("http", "grpc")}
    receiver = OtlpReceiver(Settings.model_validate({"protocols": protocols}), {})
    await receiver.start()
    for port in (receiver.http_port, receiver.grpc_port):
        for greeting in (b"GET / HTTP/1.1\\r\\n\\r\\n", bytes(100), b"\\x16\\x03\\x01\\x00\\xff" + bytes(300)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(greeting)
            writer.write_eof()
            await asyncio.wait_for(reader.read(), 20)
            writer.close()
    await receiver.stop(1)

asyncio.run(main())
"""


def test_strangers_do_not_fill_the_log(certificates: Certificates) -> None:
    command = [sys.executable, "-c", STRANGERS, str(certificates.server), str(certificates.cafile)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_files_that_hold_no_certificate_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("no certificate")
    files = {"cert_file": str(tmp_path / "x.pem"), "key_file": str(tmp_path / "x.pem")}
    for only in ({"grpc": None}, {"http": None}):
        with pytest.raises(ConfigError, match="TLS"):
            OtlpReceiver(settings(**only, tls=files), exports(Sink()))


def test_a_missing_file_and_an_empty_token_are_said_of_the_configuration(tmp_path: Path) -> None:
    missing: Any = {"cert_file": str(tmp_path / "none.pem"), "key_file": str(tmp_path / "none.pem")}
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        settings(tls=missing)
    for bad in ("", "two words", "ümlaut", "line\n"):
        with pytest.raises(ValueError, match="without spaces"):
            Settings.model_validate({"auth": {"bearer_token": bad}})


def test_the_configuration_file_is_told_where_it_names_no_file(tmp_path: Path) -> None:
    file = tmp_path / "up.yaml"
    file.write_text(
        "receivers:\n  otlp:\n    protocols:\n      http:\n        tls: {cert_file: a.pem, key_file: b.pem}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    where = f"{file}:5: receivers.otlp.protocols.http.tls"
    assert caught.value.problems == [
        f"{where}.{name}: cannot be read: No such file or directory" for name in ("cert_file", "key_file")
    ]
