"""HTTP/1 heads after RFC 9112 and RFC 9110, read with regular expressions, and refused where a reader could
take them in two ways."""

from __future__ import annotations

import re
from typing import NamedTuple

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
REQUEST_LINE = re.compile(rb"(%b) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])" % TOKEN)
STATUS_LINE = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?")
FIELD = re.compile(rb"(%b)(:[ \t]*)([\t\x20-\x7e\x80-\xff]*)" % TOKEN)
HOST = re.compile(rb"[0-9A-Za-z\-._~!$&'()*+,;=%:\[\]]*")
LENGTH = re.compile(rb"[0-9]{1,18}")
TARGET = re.compile(rb"(https?://[^/?]+)?(/[^?]*)?(?:\?(.*))?", re.I)

FORWARDED = {
    b"authorization",
    b"anthropic-version",
    b"anthropic-beta",
    b"x-smg-routing-key",
    b"x-correlation-id",
    b"traceparent",
    b"tracestate",
}
DROPPED = {
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"content-length",
    b"x-smg-error-code",
    b"x-request-id",
    b"x-smg-routed-worker-id",
}


class Refused(ValueError):
    pass


class Request(NamedTuple):
    method: bytes
    path: bytes
    query: bytes | None
    minor: int
    content_length: int
    chunked: bool
    keep_alive: bool
    expects_continue: bool
    upgrade: bool
    forward: bytes
    fields: list[tuple[bytes, bytes]]


class Response(NamedTuple):
    status: int
    minor: int
    reason: bytes
    lines: bytes
    content_length: int
    chunked: bool
    keep_alive: bool
    event_stream: bool


def read_request(data: bytes) -> Request:
    first, lines = _cut(data)
    fields = [(name, value) for name, _, value in lines]
    line = REQUEST_LINE.fullmatch(first)
    if line is None or len(line[1]) > 32 or line[3] != b"1" or line[4] not in b"01":
        raise Refused("the request line")
    minor = int(line[4])
    path, query = _target(line[2])
    hosts = _values(fields, b"host")
    if len(hosts) > 1 or (not hosts and minor == 1) or not all(HOST.fullmatch(host) for host in hosts):
        raise Refused("Host")
    length, chunked = _framing(fields)
    if chunked and minor == 0:
        raise Refused("a coding in HTTP/1.0")
    expectations = _values(fields, b"expect")
    if any(value.lower() != b"100-continue" for value in expectations):
        raise Refused("Expect")
    forward = [one for one in lines if one[0].lower() in FORWARDED or _is_request_id(one[0].lower())]
    return Request(
        method=line[1],
        path=path,
        query=query,
        minor=minor,
        content_length=length,
        chunked=chunked,
        keep_alive=_keeps_alive(fields, minor),
        expects_continue=bool(expectations) and minor == 1,
        upgrade=bool(_values(fields, b"upgrade")),
        forward=b"".join(b"%b%b%b\r\n" % one for one in forward),
        fields=fields,
    )


def read_response(data: bytes) -> Response:
    first, lines = _cut(data)
    fields = [(name, value) for name, _, value in lines]
    line = STATUS_LINE.fullmatch(first)
    if line is None:
        raise Refused("the status line")
    length, chunked = _framing(fields)
    minor = 0 if line[1] == b"0" else 1
    hop = DROPPED | set(_tokens(fields, b"connection"))
    kept = [one for one in lines if one[0].lower() not in hop]
    types = [value for name, _, value in kept if name.lower() == b"content-type" and len(value) >= 17]
    packed = any(value.lower() != b"identity" for value in _values(fields, b"content-encoding"))
    return Response(
        status=int(line[2]),
        minor=minor,
        reason=line[3] or b"",
        lines=b"".join(b"%b%b%b\r\n" % one for one in kept),
        content_length=length,
        chunked=chunked,
        keep_alive=_keeps_alive(fields, minor),
        event_stream=bool(types) and types[-1].lower().startswith(b"text/event-stream") and not packed,
    )


def _cut(data: bytes) -> tuple[bytes, list[tuple[bytes, bytes, bytes]]]:
    """The first line, and name, colon with blanks, and value of the others."""
    if data.find(b"\r\n\r\n") != len(data) - 4:
        raise Refused("not one head")
    first, *lines = data[:-4].split(b"\r\n")
    if len(lines) > 100:
        raise Refused("too many fields")
    fields = []
    for line in lines:
        found = FIELD.fullmatch(line)
        if found is None:
            raise Refused("a field line")
        fields.append((found[1], found[2], found[3].rstrip(b" \t")))
    return first, fields


def _target(target: bytes) -> tuple[bytes, bytes | None]:
    if target == b"*":
        return target, None
    found = TARGET.fullmatch(target)
    if found is None or not (found[1] or found[2]):
        raise Refused("the target")
    return found[2] or b"/", found[3]


def _framing(fields: list[tuple[bytes, bytes]]) -> tuple[int, bool]:
    lengths, codings = _values(fields, b"content-length"), _values(fields, b"transfer-encoding")
    if len(lengths) + len(codings) > 1:
        raise Refused("the body's length is ambiguous")
    if not all(LENGTH.fullmatch(value) for value in lengths):
        raise Refused("Content-Length")
    if any(value.lower() != b"chunked" for value in codings):
        raise Refused("Transfer-Encoding")
    return int(lengths[0]) if lengths else -1, bool(codings)


def _keeps_alive(fields: list[tuple[bytes, bytes]], minor: int) -> bool:
    tokens = _tokens(fields, b"connection")
    return b"close" not in tokens and (minor == 1 or b"keep-alive" in tokens)


def _tokens(fields: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [one.strip(b" \t").lower() for value in _values(fields, name) for one in value.split(b",")]


def _values(fields: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in fields if key.lower() == name]


def _is_request_id(name: bytes) -> bool:
    return name.startswith(b"x-request-id-")
