"""The addresses that a server listens on."""

import errno
import ipaddress
import socket

from nightshift.runtime.errors import UserError

HOST = "127.0.0.1"
PORTS = 21
ANY_IPV6 = "::"


def listen(port: int, attempts: int = PORTS, host: str = HOST) -> socket.socket:
    """Listen on a port, or on the next free one of `attempts`.

    Raises:
        UserError: when all of them are in use, or the host is no address of this machine.
    """
    last = min(port + attempts - 1, 65535)
    for candidate in range(port, last + 1):
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == ANY_IPV6:  # IPv4 too, for containers with both
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            listener.bind((host, candidate))
            listener.listen(socket.SOMAXCONN)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise UserError(
                    f"host is {host!r}, port {candidate}: {error.strerror}; "
                    f"give an address of this machine with --host, such as {HOST}, and a port that you may listen on"
                ) from None
    raise UserError(f"port is {port}, but {port} to {last} are all taken; stop what listens there")


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
