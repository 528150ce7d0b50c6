"""A collector of spans: an OTLP server of gRPC in the test's own process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services


class Collector(services.TraceServiceServicer):  # type: ignore[misc]
    """`spans`: what came, as protobuf messages. While `held`, it does not answer."""

    def __init__(self) -> None:
        self.port = 0
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.held = threading.Event()
        self.asked = threading.Event()
        self._free = threading.Event()

    def Export(self, request: Any, context: Any) -> Any:
        self.asked.set()
        if self.held.is_set():
            self._free.wait(30)
        for resource in request.resource_spans:
            self.resources.append({one.key: one.value.string_value for one in resource.resource.attributes})
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        return messages.ExportTraceServiceResponse()

    def free(self) -> None:
        self.held.clear()
        self._free.set()


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    services.add_TraceServiceServicer_to_server(collector, server)
    collector.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield collector
    finally:
        collector.free()
        server.stop(None).wait(10)


def attributes(span: Any) -> dict[str, Any]:
    found = {}
    for one in span.attributes:
        kind = one.value.WhichOneof("value")
        found[one.key] = getattr(one.value, kind)
    return found
