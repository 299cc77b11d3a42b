# SPDX-License-Identifier: MIT
"""Ports for processes that a test is about to start."""
import fcntl
import os
import socket
import tempfile

FIRST = 24_000


def bound(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return None
        return probe.getsockname()[1]


def free_port():
    """Outside the range from which the kernel gives out ports by itself, and no other test's: all take their turn in one file."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as numbers:
            end = int(numbers.read().split()[0])
    except OSError:
        end = 0
    if end <= FIRST:
        return bound(0)
    with open(f"{tempfile.gettempdir()}/cheetah-test-ports-{os.getuid()}", "a+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        turn.seek(0)
        last = int(turn.read() or FIRST)
        for i in range(1, end - FIRST):
            port = FIRST + (last - FIRST + i) % (end - FIRST)
            if bound(port):
                turn.truncate(0)
                turn.write(str(port))
                return port
    raise AssertionError("no port is free")
