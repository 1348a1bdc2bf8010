"""Cuts a request by where its traces live, so that all of a trace, its logs too, is read in one place.

Log records that are neither content of a span nor reports of Guards are left out on the way, since nobody has a use for them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import orjson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanfuse_processor.otlp import json_reader, protobuf_reader
from spanfuse_processor.otlp.decode import Encoding
from spanfuse_processor.otlp.logs import joinable
from spanfuse_processor.otlp.reports import is_report
from spanfuse_processor.otlp.span import LogRecord

Place = Callable[[str], Hashable]
"""Trace id → where it lives."""


class Parts(NamedTuple):
    """A request that was cut."""

    found: list[tuple[str, bytes]]
    """A trace and a request, one for each place, or several where one would be too large."""
    left_out: int
    """Log records that are of no use."""


class _Scope(NamedTuple):
    """What one instrumentation scope of one resource has sent."""

    group: Any
    scoped: Any
    items: Sequence[Any]


class _Form(NamedTuple):
    """How one kind of request is taken apart and put together."""

    scopes: Callable[[bytes], Iterator[_Scope]]
    trace_id: Callable[[Any], str]
    wanted: Callable[[Any], bool]
    join: Callable[[list[_Scope]], bytes]


def split_spans(data: bytes, encoding: Encoding, place: Place, max_bytes: int) -> Parts:
    """Cut an ExportTraceServiceRequest; one that lives in one place stays as it came.

    Args:
        max_bytes: of a part; only one that is a single item is larger.

    Raises:
        DecodeError: `data` is no such request.
    """
    return _split(data, _SPANS[encoding], place, max_bytes)


def split_logs(data: bytes, encoding: Encoding, place: Place, max_bytes: int) -> Parts:
    """The same for an ExportLogsServiceRequest.

    Raises:
        DecodeError: `data` is no such request.
    """
    return _split(data, _LOGS[encoding], place, max_bytes)


def _split(data: bytes, form: _Form, place: Place, max_bytes: int) -> Parts:
    parts: dict[Hashable, tuple[str, list[_Scope]]] = {}
    left_out = 0
    for group, scoped, items in form.scopes(data):
        here: defaultdict[Hashable, list[Any]] = defaultdict(list)
        for item in items:
            if not form.wanted(item):
                left_out += 1
                continue
            trace_id = form.trace_id(item)
            where = place(trace_id)
            here[where].append(item)
            parts.setdefault(where, (trace_id, []))
        for where, chosen in here.items():
            parts[where][1].append(_Scope(group, scoped, chosen))
    if len(parts) == 1 and not left_out and len(data) <= max_bytes:
        return Parts([(trace_id, data) for trace_id, _ in parts.values()], 0)
    found = [(trace_id, part) for trace_id, scopes in parts.values() for part in _joined(form, scopes, max_bytes)]
    return Parts(found, left_out)


def _joined(form: _Form, scopes: list[_Scope], max_bytes: int) -> Iterator[bytes]:
    """One request of all, or as many halves as it takes."""
    data = form.join(scopes)
    items = sum(len(scope.items) for scope in scopes)
    if len(data) <= max_bytes or items <= 1:
        yield data
        return
    first: list[_Scope] = []
    second: list[_Scope] = []
    left = items // 2
    for group, scoped, found in scopes:
        first.append(_Scope(group, scoped, found[: max(0, left)]))
        second.append(_Scope(group, scoped, found[max(0, left) :]))
        left -= len(found)
    for half in (first, second):
        yield from _joined(form, [scope for scope in half if scope.items], max_bytes)


def _json_scopes(keys: json_reader.Keys, data: bytes) -> Iterator[_Scope]:
    for group in json_reader.list_of(json_reader.load_request(data, keys), *keys.groups):
        for scoped in json_reader.list_of(group, *keys.scopes):
            yield _Scope(group, scoped, json_reader.list_of(scoped, *keys.items))


def _json_trace_id(item: Any) -> str:
    return json_reader.id_of(json_reader.get(item, "traceId", "trace_id"), 16)


def _join_json(keys: json_reader.Keys, scopes: list[_Scope]) -> bytes:
    groups = [_with(group, keys.scopes, [_with(scoped, keys.items, list(items))]) for group, scoped, items in scopes]
    request = {keys.groups[0]: groups}
    try:
        return orjson.dumps(request)
    except TypeError:  # numbers and text that only the tolerant reader takes
        return json.dumps(request).encode()


def _with(item: dict[str, Any], keys: tuple[str, ...], inner: list[Any]) -> dict[str, Any]:
    """The object with another array."""
    return {**{key: value for key, value in item.items() if key not in keys}, keys[0]: inner}


class _Names(NamedTuple):
    """The fields of a protobuf request."""

    request: type[Any]
    groups: str
    scopes: str
    items: str


def _protobuf_scopes(names: _Names, data: bytes) -> Iterator[_Scope]:
    request = protobuf_reader.parse(data, names.request)
    for group in getattr(request, names.groups):
        for scoped in getattr(group, names.scopes):
            yield _Scope((type(request), group), scoped, getattr(scoped, names.items))


def _protobuf_trace_id(item: Any) -> str:
    return protobuf_reader.id_of(item.trace_id, 16)


def _join_protobuf(names: _Names, scopes: list[_Scope]) -> bytes:
    kind = scopes[0].group[0]
    request = kind()
    for (_, group), scoped, items in scopes:
        to = getattr(request, names.groups).add(resource=group.resource, schema_url=group.schema_url)
        to = getattr(to, names.scopes).add(scope=scoped.scope, schema_url=scoped.schema_url)
        getattr(to, names.items).extend(items)
    data: bytes = request.SerializeToString()
    return data


def _json(keys: json_reader.Keys, wanted: Callable[[Any], bool]) -> _Form:
    return _Form(partial(_json_scopes, keys), _json_trace_id, wanted, partial(_join_json, keys))


def _protobuf(names: _Names, wanted: Callable[[Any], bool]) -> _Form:
    return _Form(partial(_protobuf_scopes, names), _protobuf_trace_id, wanted, partial(_join_protobuf, names))


def _always(_: Any) -> bool:
    return True


def _of_use(record: LogRecord) -> bool:
    return joinable(record) or is_report(record)


_SPANS: Final[dict[Encoding, _Form]] = {
    "json": _json(json_reader.SPANS, _always),
    "protobuf": _protobuf(_Names(ExportTraceServiceRequest, "resource_spans", "scope_spans", "spans"), _always),
}
_LOGS: Final[dict[Encoding, _Form]] = {
    "json": _json(json_reader.LOGS, lambda item: _of_use(json_reader.record_of(item))),
    "protobuf": _protobuf(
        _Names(ExportLogsServiceRequest, "resource_logs", "scope_logs", "log_records"),
        lambda item: _of_use(protobuf_reader.record_of(item)),
    ),
}
