"""Of which user the client of a local connection is: other users' sockets with the same local end are not confused."""

import os
import socket
import struct
from contextlib import ExitStack, contextmanager

import pytest

from monitor.accounts import origin

IP_LOCAL_PORT_RANGE = 51
OTHER_USER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to connect as another user")


@contextmanager
def as_user(user):
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)


def client_of(server, user, port=0, family=None):
    """A connection of this user to a server, from a given port."""
    with as_user(user):
        client = socket.socket(server.family if family is None else family)
        if port:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            client.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("I", port << 16 | port))
        address = server.getsockname()
        client.connect((f"::ffff:{address[0]}", address[1]) if family is not None else address)
        return client


@needs_root
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("is_root_first", [True, False])
def test_a_shared_source_port_keeps_users_apart(host, is_root_first):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for _ in range(8):  # the order of the kernel's table varies
        with ExitStack() as opened:
            other, lab = (
                opened.enter_context(socket.create_server((host, 0), family=family)) for _ in range(2)
            )  # fmt: skip
            first = opened.enter_context(client_of(*((other, 0) if is_root_first else (lab, OTHER_USER))))
            port = first.getsockname()[1]
            opened.enter_context(client_of(*((lab, OTHER_USER) if is_root_first else (other, 0)), port))
            connection = opened.enter_context(lab.accept()[0])

            assert connection.getpeername()[1] == port
            assert origin.user_at_other_end(connection) == OTHER_USER


@needs_root
@pytest.mark.parametrize("user", [0, OTHER_USER])
def test_an_ipv6_socket_to_an_ipv4_address_is_found(user):
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        client_of(server, user, family=socket.AF_INET6),
        server.accept()[0] as connection,
    ):
        assert origin.user_at_other_end(connection) == user


@needs_root
def test_an_ipv4_client_of_a_dual_stack_server_is_found():
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection(("127.0.0.1", server.getsockname()[1])),
        server.accept()[0] as connection,
    ):
        assert origin.user_at_other_end(connection) == 0


@pytest.mark.parametrize("ending", [lambda client: client.close(), lambda client: client.shutdown(socket.SHUT_WR)])
def test_a_client_that_has_closed_has_no_user(ending):
    """The kernel tells user 0 of a socket that nobody has any more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        with server.accept()[0] as connection:
            ending(client)

            assert origin.user_at_other_end(connection) is None
        client.close()


def test_a_connection_that_is_not_tcp_has_no_user(tmp_path):
    near, far = socket.socketpair()
    with near, far:
        assert origin.user_at_other_end(near) is None


def test_a_table_that_is_too_long_tells_no_user(monkeypatch):
    monkeypatch.setattr(origin, "MOST_SOCKETS", 1)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
        server.accept()[0] as connection,
    ):
        assert origin.user_at_other_end(connection) is None
