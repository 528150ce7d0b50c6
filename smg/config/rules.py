"""Rules across fields and against the machine: files that must exist, options that exclude each other.

Each rule names the fields it reads, so that it is left out when one of them could not be read, and
yields one sentence per problem. Secrets are never part of a sentence.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from smg.config import side_files
from smg.config.control_rules import CONTROL_RULES
from smg.config.model import Config
from smg.config.specs import SECRET_HEADERS, resolve_aliases
from smg.config.tracing import problem_of

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+")
_UDS_MOST_BYTES = 107

Rule = Callable[[Config], Iterator[str]]


def _tls_pairs(config: Config) -> Iterator[str]:
    listen, upstream = config.listen, config.upstream
    if (listen.tls_cert_path is None) != (listen.tls_key_path is None):
        yield "--tls-cert-path and --tls-key-path go together; only one of them is given"
    if (upstream.client_cert_path is None) != (upstream.client_key_path is None):
        yield "--client-cert-path and --client-key-path go together; only one of them is given"


def _files(config: Config) -> Iterator[str]:
    listen, upstream = config.listen, config.upstream
    named = [
        ("--tls-cert-path", listen.tls_cert_path),
        ("--tls-key-path", listen.tls_key_path),
        ("--client-cert-path", upstream.client_cert_path),
        ("--client-key-path", upstream.client_key_path),
        *(("--ca-cert-paths", path) for path in upstream.ca_cert_paths),
    ]
    for flag, path in named:
        if path is not None and not os.path.isfile(path):
            yield f"{flag}: there is no file {path}"
        elif path is not None and not os.access(path, os.R_OK):
            yield f"{flag}: the file {path} may not be read by this user"


def _log_dir(config: Config) -> Iterator[str]:
    path = config.telemetry.log_dir
    if path is not None and os.path.exists(path) and not os.path.isdir(path):
        yield f"--log-dir: {path} is not a directory"


def _uds(config: Config) -> Iterator[str]:
    path = config.listen.uds
    if path is None:
        return
    if len(os.fsencode(path)) > _UDS_MOST_BYTES:
        yield f"--uds: the path is longer than the {_UDS_MOST_BYTES} bytes a Unix socket can have"
    elif not os.path.isdir(Path(path).absolute().parent):
        yield f"--uds: there is no directory {Path(path).absolute().parent}"
    elif os.path.exists(path) and not stat.S_ISSOCK(os.stat(path).st_mode):
        yield f"--uds: {path} exists and is not a socket"


def _ports(config: Config) -> Iterator[str]:
    taken: dict[int, str] = {}
    for flag, port in (
        ("--port", config.listen.port),
        ("--health-check-port", config.listen.health_check_port),
        ("--prometheus-port", config.telemetry.prometheus_port),
    ):
        if port and port in taken:
            yield f"{taken[port]} and {flag} are both {port}; each needs a port of its own"
        elif port:
            taken[port] = flag


def _cors(config: Config) -> Iterator[str]:
    origins = config.listen.cors_allowed_origins
    if "*" in origins and len(origins) > 1:
        yield "--cors-allowed-origins: * allows every origin and stands alone"
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            yield f"--cors-allowed-origins: {origin!r} is not an origin such as https://app.example:8443"


def _request_id_headers(config: Config) -> Iterator[str]:
    names = config.listen.request_id_headers
    yield from _header_names("--request-id-headers", names)
    yield from _secret_names("--request-id-headers", names)


def _routing_key_headers(config: Config) -> Iterator[str]:
    return _header_names("--routing-key-headers", config.routing.routing_key_headers)


def _header_names(flag: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if not _TOKEN.fullmatch(name):
            yield f"{flag}: {name!r} is not a header name"


def _secret_names(flag: str, names: Iterable[str]) -> Iterator[str]:
    """Headers whose values logs and metrics show must hold nothing secret."""
    for name in names:
        if name.lower() in SECRET_HEADERS:
            yield f"{flag}: {name} holds a secret, which no log may show"


def _power_of_two(config: Config) -> Iterator[str]:
    if config.routing.policy == "power_of_two" and len(set(config.workers.worker_urls)) == 1:
        yield "--policy power_of_two needs at least two workers; --worker-urls has only one"


def _pairs(config: Config) -> Iterator[str]:
    pairs = config.disaggregation
    if not pairs.pd_disaggregation:
        for flag, given in (("--prefill", pairs.prefill), ("--decode", pairs.decode)):
            if given:
                yield f"{flag} needs --pd-disaggregation; workers that do both are given with --worker-urls"
    kinds = (
        {str(one.url) for one in pairs.prefill},
        set(map(str, pairs.decode)),
        set(map(str, config.workers.worker_urls)),
    )
    for url in sorted(kinds[0] & kinds[1] | kinds[0] & kinds[2] | kinds[1] & kinds[2]):
        yield f"{url} can be only one of a prefill, a decode and a whole worker"
    for name, policy, half in (
        ("prefill", pairs.prefill_policy, pairs.prefill),
        ("decode", pairs.decode_policy, pairs.decode),
    ):
        if policy == "power_of_two" and len(half) == 1:
            yield f"--{name}-policy power_of_two needs at least two workers; --{name} has only one"


def _cache_index(config: Config) -> Iterator[str]:
    if config.routing.cache_index == "hash" and not config.routing.cache_boundaries:
        yield "--cache-index hash needs the lengths it compares, --cache-boundaries"


def _health_endpoint(config: Config) -> Iterator[str]:
    path = config.workers.health_check_endpoint
    if not path.startswith("/") or not path.isascii() or any(letter in path for letter in " #"):
        yield f"--health-check-endpoint: {path!r} is not a path beginning with /"


def _aliases(config: Config) -> Iterator[str]:
    try:
        resolve_aliases(config.routing.model_alias)
    except ValueError as problem:
        yield f"--model-alias: {problem}"


def _backoff(config: Config) -> Iterator[str]:
    retry = config.retry
    if retry.retry_max_backoff_ms < retry.retry_initial_backoff_ms:
        yield (
            f"--retry-max-backoff-ms ({retry.retry_max_backoff_ms}) is less than "
            f"--retry-initial-backoff-ms ({retry.retry_initial_backoff_ms})"
        )


def _tenant_keys(config: Config) -> Iterator[str]:
    owners: dict[str, str] = {}
    for entry in config.auth.tenant_api_key:
        owner = owners.setdefault(entry.key, entry.tenant)
        if owner != entry.tenant:
            yield f"--tenant-api-key: tenants {owner!r} and {entry.tenant!r} have the same key"
    shared = config.auth.api_key
    if shared in owners:
        yield f"--tenant-api-key: the key of tenant {owners[shared]!r} is also the shared --api-key"


def _control_plane_keys(config: Config) -> Iterator[str]:
    owners: dict[str, str] = {}
    for entry in config.auth.control_plane_api_keys:
        if entry.key in owners:
            yield f"--control-plane-api-keys: {owners[entry.key]!r} and {entry.id!r} have the same key"
        owners[entry.key] = entry.id


def _tracing(config: Config) -> Iterator[str]:
    if problem := problem_of(config.tracing):
        yield problem


def _buckets(config: Config) -> Iterator[str]:
    bounds = config.telemetry.prometheus_duration_buckets
    if any(low >= high for low, high in pairwise(bounds)):
        yield "--prometheus-duration-buckets: each bound must be greater than the one before"


def _scheduler_file(config: Config) -> Iterator[str]:
    admission = config.admission
    if admission.priority_scheduler_enabled:
        try:
            side_files.read_scheduler(admission.priority_scheduler_config)
        except side_files.FileError as problem:
            yield f"--priority-scheduler-config: {problem}"


def _tenants_file(config: Config) -> Iterator[str]:
    admission = config.admission
    if not admission.tenant_rate_limit_enabled:
        return
    if admission.tenant_rate_limit_config is None:
        yield "--tenant-rate-limit-enabled needs the file of --tenant-rate-limit-config"
        return
    try:
        side_files.read_tenants(admission.tenant_rate_limit_config, admission.trust_tenant_header)
    except side_files.FileError as problem:
        yield f"--tenant-rate-limit-config: {problem}"


def _tenant_header(config: Config) -> Iterator[str]:
    name = config.admission.tenant_header_name
    yield from _header_names("--tenant-header-name", [name])
    yield from _secret_names("--tenant-header-name", [name])


def _shed(config: Config) -> Iterator[str]:
    if config.protection.worker_overload_shed and config.workers.disable_load_monitoring:
        yield "--worker-overload-shed needs the workers' reports; leave --disable-load-monitoring out"


RULES: tuple[tuple[frozenset[str], Rule], ...] = (
    (frozenset({"tls_cert_path", "tls_key_path", "client_cert_path", "client_key_path"}), _tls_pairs),
    (
        frozenset({"tls_cert_path", "tls_key_path", "client_cert_path", "client_key_path", "ca_cert_paths"}),
        _files,
    ),
    (frozenset({"log_dir"}), _log_dir),
    (frozenset({"uds"}), _uds),
    (frozenset({"port", "health_check_port", "prometheus_port"}), _ports),
    (frozenset({"cors_allowed_origins"}), _cors),
    (frozenset({"request_id_headers"}), _request_id_headers),
    (frozenset({"routing_key_headers"}), _routing_key_headers),
    (frozenset({"policy", "worker_urls"}), _power_of_two),
    (
        frozenset(
            {"pd_disaggregation", "prefill", "decode", "worker_urls", "prefill_policy", "decode_policy"}
        ),
        _pairs,
    ),
    (frozenset({"cache_index", "cache_boundaries"}), _cache_index),
    (frozenset({"worker_overload_shed", "disable_load_monitoring"}), _shed),
    (frozenset({"priority_scheduler_enabled", "priority_scheduler_config"}), _scheduler_file),
    (
        frozenset({"tenant_rate_limit_enabled", "tenant_rate_limit_config", "trust_tenant_header"}),
        _tenants_file,
    ),
    (frozenset({"tenant_header_name"}), _tenant_header),
    (frozenset({"health_check_endpoint"}), _health_endpoint),
    (frozenset({"model_alias"}), _aliases),
    (frozenset({"retry_initial_backoff_ms", "retry_max_backoff_ms"}), _backoff),
    (frozenset({"api_key", "tenant_api_key"}), _tenant_keys),
    (frozenset({"control_plane_api_keys"}), _control_plane_keys),
    (frozenset({"prometheus_duration_buckets"}), _buckets),
    (frozenset({"enable_trace", "otlp_traces_endpoint"}), _tracing),
    *CONTROL_RULES,
)
