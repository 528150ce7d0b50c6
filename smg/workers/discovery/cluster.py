"""Listing and watching pods at a Kubernetes API server, by the library `kubernetes_asyncio`.

The library finds the cluster and its credentials (KUBECONFIG, else the account of the pod the gateway runs
in) and sends the requests; answers are read here, as far as they are needed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, TypeVar

import aiohttp
import msgspec
from kubernetes_asyncio import client
from kubernetes_asyncio.config import (
    ConfigException,
    load_incluster_config,
    load_kube_config,
)
from kubernetes_asyncio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION

from smg.workers.discovery.pods import ClusterError, Pod, PodList, Problem, WatchEvent

PAGE = 500
MAX_PAGES = 100
MAX_PAGE_BYTES = 64 << 20
# An object in etcd has 1.5 MiB at most.
MAX_EVENT_BYTES = 4 << 20
LIST_S = 30.0
CONNECT_S = 10.0
WATCH_S = 240
# The server sends a bookmark about once a minute: longer silence is a dead connection.
SILENCE_S = 150.0
EXPIRED = 410
UNAUTHORIZED = 401


T = TypeVar("T")


class Cluster:
    """The pods of one namespace, or of all. `kubeconfig` in place of the library's own search."""

    def __init__(self, namespace: str | None, kubeconfig: str | None = None) -> None:
        self._namespace = namespace
        self._kubeconfig = kubeconfig
        self._api: client.ApiClient | None = None

    async def list_pods(self, selector: str) -> tuple[str, list[Pod]]:
        """The present version and all pods. Raises `ClusterError`."""
        pods: list[Pod] = []
        page: str | None = None
        for _ in range(MAX_PAGES):
            query = {"_continue": page} if page else {}
            async with await self._ask(_within(LIST_S), selector, limit=PAGE, **query) as response:
                found = _decode(await _read(response), PodList)
            pods += found.items or ()
            page = found.metadata.next_page
            if not page:
                return found.metadata.resource_version, pods
        raise ClusterError("invalid", f"the list of pods has more than {MAX_PAGES} pages")

    async def watch_pods(self, selector: str, version: str) -> AsyncGenerator[tuple[str, Pod]]:
        """Type and pod of events after a version, until the server ends the watch. Raises `ClusterError`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        asked = {"watch": True, "allow_watch_bookmarks": True, "timeout_seconds": WATCH_S}
        response = await self._ask(timeout, selector, resource_version=version, **asked)
        try:
            async for line in _lines(response):
                event = _decode(line, WatchEvent)
                if event.type == "ERROR":
                    raise _refusal(_decode(event.object, Problem).code)
                yield event.type, _decode(event.object, Pod)
        finally:
            response.close()

    async def close(self) -> None:
        if self._api is not None:
            await self._api.close()
            self._api = None

    async def _ask(
        self, timeout: aiohttp.ClientTimeout, selector: str, **query: Any
    ) -> aiohttp.ClientResponse:
        """The answer with a good status, its body unread."""
        if self._api is None:
            self._api = await self._connect()
        pods = client.CoreV1Api(self._api)
        query |= {"_preload_content": False, "_request_timeout": timeout}
        if selector:
            query["label_selector"] = selector
        try:
            # With `_preload_content` off it is the HTTP client's own answer, which the types do not say.
            response: Any = await (
                pods.list_pod_for_all_namespaces(**query)
                if self._namespace is None
                else pods.list_namespaced_pod(self._namespace, **query)
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ClusterError("unreachable", _words(error)) from None
        except ConfigException as error:
            raise ClusterError("configuration", str(error)) from None
        if response.status != 200:
            response.close()
            if response.status == UNAUTHORIZED:
                # The credentials have changed; they are read anew.
                await self.close()
            raise _refusal(response.status)
        answer: aiohttp.ClientResponse = response
        return answer

    async def _connect(self) -> client.ApiClient:
        configuration = client.Configuration()
        try:
            if self._kubeconfig is not None or _has_kubeconfig():
                await load_kube_config(
                    self._kubeconfig, client_configuration=configuration, persist_config=False
                )
            else:
                load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            return client.ApiClient(configuration)
        except ConfigException as error:
            raise ClusterError("configuration", f"no access to a cluster: {error}") from None
        except Exception as error:
            # Broken YAML, a missing certificate, a plug-in that fails: told by kind, the texts may show keys.
            raise ClusterError("configuration", f"no access to a cluster: {type(error).__name__}") from None


def _has_kubeconfig() -> bool:
    paths = KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep)
    return any(os.path.exists(os.path.expanduser(path)) for path in paths)


def _within(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)


def _refusal(status: int) -> ClusterError:
    if status == EXPIRED:
        return ClusterError("expired", "the version is too old")
    if status in (UNAUTHORIZED, 403):
        return ClusterError("forbidden", f"status {status}: the account may not list and watch pods there")
    return ClusterError("refused", f"status {status}")


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"no connection: {error.os_error.strerror or 'unreachable'}"
    return f"the exchange failed: {type(error).__name__}"


async def _read(response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in _parts(response):
        size += len(part)
        if size > MAX_PAGE_BYTES:
            raise ClusterError("invalid", f"the list of pods is longer than {MAX_PAGE_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Lines that are not empty; the last one need not end."""
    rest = bytearray()
    async for part in _parts(response):
        *lines, part = part.split(b"\n")
        for line in lines:
            rest += line
            _check_length(rest)
            if rest.strip():
                yield bytes(rest)
            rest.clear()
        rest += part
        _check_length(rest)
    if rest.strip():
        yield bytes(rest)


def _check_length(event: bytearray) -> None:
    if len(event) > MAX_EVENT_BYTES:
        raise ClusterError("invalid", f"an event is longer than {MAX_EVENT_BYTES} bytes")


async def _parts(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for part in response.content.iter_any():
            yield part
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise ClusterError("unreachable", _words(error)) from None


def _decode(content: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ClusterError("invalid", f"the answer is no {kind.__name__}") from None
