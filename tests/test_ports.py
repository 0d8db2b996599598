"""A server that tests stop and start again finds its port free."""

from __future__ import annotations

import errno
import socket
import struct
import sys

import pytest

from tests.ports import kept_port

RANGE = 51  # IP_LOCAL_PORT_RANGE, since Linux 6.3: from which ports the kernel chooses one


class Owner:
    """Whoever keeps a port."""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no port is kept")
def test_a_kept_port_is_a_servers_again_and_again_and_nobody_elses() -> None:
    owner = Owner()
    port = kept_port(owner)
    for _ in range(2):
        with socket.create_server(("127.0.0.1", port)):
            pass
    with socket.socket() as other:
        try:
            other.setsockopt(socket.IPPROTO_IP, RANGE, struct.pack("I", port | port << 16))
        except OSError as error:
            assert error.errno == errno.ENOPROTOOPT
            pytest.skip("this kernel does not choose within one port")
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", 0))
    del owner
