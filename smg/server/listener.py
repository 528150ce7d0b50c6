"""The sockets the gateway listens on, and the servers behind them."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import Callable

BACKLOG = 2048


class StartError(Exception):
    """The gateway cannot start; the text is a sentence for the person who started it."""


def tcp_sockets(host: str, port: int, option: str = "--port") -> list[socket.socket]:
    """Listening sockets for every address of `host`; SO_REUSEADDR, so that a restart needs no wait.

    Raises `StartError`, which names the `option` that the port is from.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise StartError(f"cannot listen on {host!r}: {error.strerror or error}") from None
    sockets: list[socket.socket] = []
    for family, kind, protocol, _, address in dict.fromkeys(found):
        one = socket.socket(family, kind, protocol)
        sockets.append(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host not in ("::", "")))
        try:
            one.bind(address)
        except OSError as error:
            for each in sockets:
                each.close()
            raise StartError(_bind_problem(host, port, option, error)) from None
    return sockets


def _bind_problem(host: str, port: int, option: str, error: OSError) -> str:
    import errno

    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken: another program listens there; end it or choose another {option}"
    if error.errno == errno.EACCES:
        return f"port {port} needs rights this user does not have; choose one above 1023"
    return f"cannot listen on {host}:{port}: {error.strerror}"


def unix_socket(path: str) -> socket.socket:
    """A listening socket at `path`; a socket nobody listens on any more is replaced."""
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(path)
                except OSError:
                    os.unlink(path)
                else:
                    raise StartError(f"the socket {path} is taken: another program listens there")
    except FileNotFoundError:
        pass
    one = socket.socket(socket.AF_UNIX)
    try:
        one.bind(path)
    except OSError as error:
        one.close()
        raise StartError(f"cannot make the socket {path}: {error.strerror}") from None
    return one


def server_tls(cert_path: str, key_path: str) -> ssl.SSLContext:
    """For the client side: TLS 1.2 and newer, HTTP/1.1 only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert_path, key_path)
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"cannot use the certificate {cert_path}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


class Listener:
    """Servers that make a protocol by `factory` for every connection."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._paths: list[str] = []
        self.urls: list[str] = []

    async def start(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        sockets: list[socket.socket],
        tls: ssl.SSLContext | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        for one in sockets:
            is_unix = one.family == socket.AF_UNIX
            context = None if is_unix else tls
            if is_unix:
                self._paths.append(one.getsockname())
                server = await loop.create_unix_server(factory, sock=one, backlog=BACKLOG)
            else:
                server = await loop.create_server(factory, sock=one, backlog=BACKLOG, ssl=context)
            self._servers.append(server)
            self.urls.append(_url(one, context is not None))

    def stop(self) -> None:
        """Accept no more connections; the open ones go on."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for path in self._paths:
            try:
                os.unlink(path)
            except OSError:
                pass
        self._paths.clear()


def _url(one: socket.socket, tls: bool) -> str:
    if one.family == socket.AF_UNIX:
        return f"unix:{one.getsockname()}"
    host, port = one.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{'https' if tls else 'http'}://{shown}:{port}"
