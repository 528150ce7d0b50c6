"""Workers from a Kubernetes cluster: list, watch, bookmarks, expired versions, and an API server that is away
while requests run."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme
from kubernetes_asyncio.config import incluster_config

from smg.config.discovery import Discovery, LabelPair
from smg.workers.discovery import cluster
from smg.workers.discovery.cluster import Cluster
from smg.workers.discovery.kubernetes import KubernetesSource
from smg.workers.discovery.pods import PodReader, Role, Roles
from smg.workers.discovery.reconcile import Reconciler
from smg.workers.worker import Status
from tests.waiting import until
from tests.wire.control_plane import Plane, control_plane
from tests.wire.kube_server import NAMESPACE, KubeServer, pod
from tests.wire.live_gateway import LiveGateway, running
from tests.wire.raw_client import post
from tests.wire.scripted_worker import ScriptedWorker

ROLE = Role("regular", (LabelPair("app", "x"),))


@pytest.fixture
async def server() -> AsyncIterator[KubeServer]:
    server = await KubeServer().start()
    yield server
    await server.stop()


@pytest.fixture
async def worker() -> AsyncIterator[ScriptedWorker]:
    worker = ScriptedWorker(lambda connection, request: connection.answer())
    await worker.start()
    yield worker
    await worker.stop()


class Following:
    def __init__(self, plane: Plane | LiveGateway, reconciler: Reconciler) -> None:
        self.registry = plane.registry if isinstance(plane, Plane) else plane.server.registry
        self.reconciler = reconciler

    def urls(self) -> set[str]:
        return {w.url for w in self.registry.all() if w.status is not Status.DRAINING}

    async def sees(self, *hosts: str) -> None:
        wanted = {f"http://{host}:9" for host in hosts}
        await until(lambda: self.urls() == wanted)


@asynccontextmanager
async def following(
    plane: Plane | LiveGateway,
    server: KubeServer,
    folder: Path,
    *roles: Role,
    namespace: str | None = NAMESPACE,
    port: int = 9,
    resync_s: float = 30,
) -> AsyncIterator[Following]:
    made = Cluster(namespace, server.kubeconfig(folder))
    async with followed(plane, made, *roles, port=port, resync_s=resync_s) as found:
        yield found


@asynccontextmanager
async def followed(
    plane: Plane | LiveGateway, pods: Cluster, *roles: Role, port: int = 9, resync_s: float = 30
) -> AsyncIterator[Following]:
    parts = plane if isinstance(plane, Plane) else plane.server
    reconciler = Reconciler("kubernetes", parts.registry, parts.registrar)
    source = KubernetesSource(
        pods,
        PodReader(Discovery(service_discovery_port=port)),
        Roles(roles or (ROLE,)),
        reconciler,
        pause_s=0.01,
        resync_s=resync_s,
    )
    task = asyncio.create_task(source.run())
    try:
        yield Following(plane, reconciler)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_pods_come_change_and_go(server: KubeServer, tmp_path: Path) -> None:
    server.put(pod("a", "127.0.0.1"))
    server.put(pod("unready", "127.0.0.2", ready=False))
    server.put({**pod("other", "127.0.0.3"), "metadata": {**pod("other", "")["metadata"], "labels": {}}})
    async with control_plane() as plane, following(plane, server, tmp_path) as found:
        await found.sees("127.0.0.1")
        server.put(pod("b", "127.0.0.4"))
        await found.sees("127.0.0.1", "127.0.0.4")
        server.put(pod("unready", "127.0.0.2"))
        await found.sees("127.0.0.1", "127.0.0.2", "127.0.0.4")
        server.put(pod("a", "127.0.0.1", ready=False))
        await found.sees("127.0.0.2", "127.0.0.4")
        leaving = pod("b", "127.0.0.4")
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        server.put(leaving)
        await found.sees("127.0.0.2")
        server.delete("unready")
        await found.sees()
        first = server.asked[0]
        assert (first["labelSelector"], first["limit"]) == ("app=x", "500")
        assert server.asked[1]["resourceVersion"] == "13"
        assert server.asked[1]["allowWatchBookmarks"].lower() == "true"


async def test_a_new_pod_with_the_address_of_an_old_one(server: KubeServer, tmp_path: Path) -> None:
    server.put(pod("a", "127.0.0.1"))
    async with control_plane() as plane, following(plane, server, tmp_path) as found:
        await found.sees("127.0.0.1")
        before = plane.worker("http://127.0.0.1:9")
        server.delete("a")
        server.put(pod("b", "127.0.0.1"))
        await until(lambda: found.urls() and plane.worker("http://127.0.0.1:9") is not before)
        assert plane.worker("http://127.0.0.1:9").labels["smg.ai/pod-uid"] == "u-b"


async def test_all_namespaces(server: KubeServer, tmp_path: Path) -> None:
    server.put(pod("a", "127.0.0.1"))
    async with control_plane() as plane, following(plane, server, tmp_path, namespace=None) as found:
        await found.sees("127.0.0.1")


async def test_pages(server: KubeServer, tmp_path: Path) -> None:
    server.page = 3
    hosts = [f"127.0.0.{number}" for number in range(1, 11)]
    for host in hosts:
        server.put(pod(host, host))
    async with control_plane() as plane, following(plane, server, tmp_path) as found:
        await found.sees(*hosts)
        assert [query.get("continue") for query in server.asked[:4]] == [None, "3", "6", "9"]


async def test_roles_of_pairs(server: KubeServer, tmp_path: Path) -> None:
    server.put(pod("p", "127.0.0.1", half="prefill"))
    server.put(pod("d", "127.0.0.2", half="decode"))
    roles = [Role(kind, (LabelPair("half", kind),)) for kind in ("prefill", "decode")]
    async with control_plane() as plane, following(plane, server, tmp_path, *roles) as found:
        await found.sees("127.0.0.1", "127.0.0.2")
        await until(lambda: server.watching)
        assert {w.url[-3:-2]: w.worker_type for w in plane.registry.all()} == {"1": "prefill", "2": "decode"}
        assert [query["labelSelector"] for query in server.asked] == ["half in (decode,prefill)"] * 2


async def test_a_watch_that_broke_off_misses_nothing(server: KubeServer, tmp_path: Path) -> None:
    server.put(pod("a", "127.0.0.1"))
    async with control_plane() as plane, following(plane, server, tmp_path) as found:
        await found.sees("127.0.0.1")
        await until(lambda: server.watching)
        server.cut()
        server.put(pod("b", "127.0.0.2"))
        await found.sees("127.0.0.1", "127.0.0.2")


async def test_expired_versions_are_listed_anew(server: KubeServer, tmp_path: Path) -> None:
    server.put(pod("a", "127.0.0.1"))
    async with control_plane() as plane, following(plane, server, tmp_path) as found:
        await found.sees("127.0.0.1")
        await until(lambda: server.watching)
        # As status of a watch that begins.
        server.forget()
        del server.pods["u-a"]
        server.pods["u-b"] = pod("b", "127.0.0.2")
        server.end()
        await found.sees("127.0.0.2")
        # As an event of a watch that runs.
        await until(lambda: server.watching)
        server.pods["u-c"] = pod("c", "127.0.0.3")
        server.error(410)
        await found.sees("127.0.0.2", "127.0.0.3")
        assert found.reconciler.snapshot_errors == {"expired": 2}


async def test_a_watch_that_ended_goes_on_where_it_was(server: KubeServer, tmp_path: Path) -> None:
    async with control_plane() as plane, following(plane, server, tmp_path) as found:
        for number in range(1, 4):
            await until(lambda: server.watching)
            server.end()
            server.put(pod(str(number), f"127.0.0.{number}"))
            await found.sees(*(f"127.0.0.{seen}" for seen in range(1, number + 1)))
        assert sum("watch" not in query for query in server.asked) == 1
        assert not found.reconciler.snapshot_errors


async def test_bookmarks_move_the_version_on(server: KubeServer, tmp_path: Path) -> None:
    async with control_plane() as plane, following(plane, server, tmp_path) as found:
        await until(lambda: server.watching)
        server.put(pod("a", "127.0.0.1"))
        server.bookmark()
        version = server.version
        await found.sees("127.0.0.1")
        server.end()

        def versions() -> list[str]:
            return [query["resourceVersion"] for query in server.asked if "watch" in query]

        await until(lambda: len(versions()) == 2)
        assert versions()[1] == str(version)
        assert found.urls() == {"http://127.0.0.1:9"}


async def test_while_the_server_is_away_the_workers_stay(
    server: KubeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.put(pod("a", "127.0.0.1"))
    async with control_plane() as plane, following(plane, server, tmp_path) as found:
        await found.sees("127.0.0.1")
        await until(lambda: server.watching)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "smg.workers.discovery"):
            await server.stop()
            await until(lambda: found.reconciler.snapshot_errors["unreachable"] >= 4)
        told = [record.message for record in caplog.records if record.name.startswith("smg.workers.disc")]
        assert set(told) == {"pods cannot be watched, workers stay as they are"}
        # One for the stream that broke off, one for the connection that is refused.
        assert len(told) <= 2
        assert found.urls() == {"http://127.0.0.1:9"}
        await server.start()
        server.put(pod("b", "127.0.0.2"))
        await found.sees("127.0.0.1", "127.0.0.2")


@pytest.mark.parametrize(("status", "reason"), [(401, "forbidden"), (403, "forbidden"), (500, "refused")])
async def test_refusals_of_the_server(server: KubeServer, tmp_path: Path, status: int, reason: str) -> None:
    server.put(pod("a", "127.0.0.1"))
    server.refuse = status
    async with control_plane() as plane, following(plane, server, tmp_path) as found:
        await until(lambda: found.reconciler.snapshot_errors[reason] >= 2)
        assert found.urls() == set()
        server.refuse = 0
        await found.sees("127.0.0.1")


async def test_credentials_are_read_again_when_they_were_refused(server: KubeServer, tmp_path: Path) -> None:
    server.put(pod("a", "127.0.0.1"))
    async with control_plane() as plane, following(plane, server, tmp_path) as found:
        await found.sees("127.0.0.1")
        server.token = "rotated"
        server.kubeconfig(tmp_path)
        server.cut()
        server.put(pod("b", "127.0.0.2"))
        await found.sees("127.0.0.1", "127.0.0.2")


async def test_no_cluster_at_all(tmp_path: Path) -> None:
    async with control_plane() as plane:
        reconciler = Reconciler("kubernetes", plane.registry, plane.registrar)
        for content in ("", "{", "clusters: 5", "a: b"):
            path = tmp_path / "broken.yaml"
            path.write_text(content)
            source = KubernetesSource(
                Cluster(None, str(path)), PodReader(Discovery()), Roles([ROLE]), reconciler, pause_s=0.01
            )
            before = reconciler.snapshot_errors["configuration"]
            task = asyncio.create_task(source.run())
            await until(lambda before=before: reconciler.snapshot_errors["configuration"] >= before + 2)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_answers_that_are_none(
    server: KubeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(pod("a", "127.0.0.1"))
    monkeypatch.setattr(cluster, "MAX_EVENT_BYTES", 10_000)
    async with control_plane() as plane, following(plane, server, tmp_path) as found:
        await found.sees("127.0.0.1")
        await until(lambda: server.watching)
        large = pod("large", "127.0.0.2")
        large["metadata"]["annotations"]["x"] = "y" * 20_000
        server.put(large)
        await until(lambda: found.reconciler.snapshot_errors["invalid"])
        # The list has it, whatever the watch makes of it.
        await found.sees("127.0.0.1", "127.0.0.2")


async def test_a_worker_that_was_removed_comes_back(server: KubeServer, tmp_path: Path) -> None:
    server.put(pod("a", "127.0.0.1"))
    async with control_plane() as plane, following(plane, server, tmp_path, resync_s=0.05) as found:
        await found.sees("127.0.0.1")
        plane.registrar.remove(plane.worker("http://127.0.0.1:9"))
        assert found.urls() == set()
        await found.sees("127.0.0.1")


async def test_no_request_fails_while_the_server_restarts_under_load(
    server: KubeServer, worker: ScriptedWorker, tmp_path: Path
) -> None:
    server.put(pod("a", "127.0.0.1"))
    async with (
        running(wait=False) as gateway,
        following(gateway, server, tmp_path, port=worker.port),
        asyncio.TaskGroup() as group,
    ):
        await until(lambda: gateway.server.registry.ready_count == 1)
        statuses: list[int] = []
        enough = asyncio.Event()
        load = group.create_task(_load(gateway, statuses, enough))
        for _ in range(3):
            await _more(statuses)
            await server.stop()
            await _more(statuses)
            server.forget()
            await server.start()
            await until(lambda: server.watching)
        await _more(statuses)
        enough.set()
        await load
    assert set(statuses) == {200}


async def _load(gateway: LiveGateway, statuses: list[int], enough: asyncio.Event) -> None:
    while not enough.is_set():
        statuses.append((await gateway.ask(post())).status)


async def _more(statuses: list[int]) -> None:
    wanted = len(statuses) + 20
    await until(_reached(statuses, wanted))


def _reached(statuses: list[int], count: int) -> Callable[[], bool]:
    return lambda: len(statuses) >= count


async def test_the_account_of_the_pod_the_gateway_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    token = tmp_path / "token"
    token.write_text("of the pod")
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(cluster, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "absent"))
    server = KubeServer()
    server.token = "of the pod"
    server.put(pod("a", "127.0.0.1"))
    await server.start(tls)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    try:
        async with control_plane() as plane, followed(plane, Cluster(NAMESPACE)) as found:
            await found.sees("127.0.0.1")
            # The token in the file is replaced every hour; the old one ends some time later.
            server.token = "another"
            token.write_text("another")
            server.cut()
            server.put(pod("b", "127.0.0.2"))
            await found.sees("127.0.0.1", "127.0.0.2")
    finally:
        await server.stop()
