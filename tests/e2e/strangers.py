# SPDX-License-Identifier: MIT
"""Strangers at the sockets of a process: what it listens on, what they say there, and what it costs the process."""
import collections
import os
import pathlib
import random
import socket
import struct
import threading

LISTENING = {"tcp": "0A", "unix": "01"}
HELD = 150  # connections that one crowd keeps open
HTTP = [b"GET /health/ready HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 41\r\n\r\n"
        b'{"prompt":"Once","max_tokens":1,"stream":1}',
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\nff\r\n{\"messages\":[",
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"]


def inodes_of(pid):
    found = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def listening(pid):
    """The addresses that a process listens on: ("tcp", host, port) and ("unix", name)."""
    own, found = inodes_of(pid), set()
    for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == LISTENING["tcp"] and words[9] in own:
            host, port = words[1].split(":")
            found.add(("tcp", socket.inet_ntoa(struct.pack("=I", int(host, 16))), int(port, 16)))
    for line in pathlib.Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if len(words) == 8 and int(words[3], 16) & 0x10000 and words[5] == LISTENING["unix"] and words[6] in own:
            found.add(("unix", "\0" + words[7][1:] if words[7][0] == "@" else words[7]))
    return sorted(found)


def cost(pid):
    """What a process holds."""
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return {"rss_kib": int(status["VmRSS"].split()[0]), "threads": int(status["Threads"]), "files": len(os.listdir(f"/proc/{pid}/fd"))}


class Recorder:
    """Forwards one connection after another to a port and keeps what the clients said."""

    def __init__(self, host, port):
        self.target, self.said = (host, port), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
                far = socket.create_connection(self.target, timeout=5)
            except OSError:
                return
            self.said.append(bytearray())
            for source, sink, kept in ((near, far, self.said[-1]), (far, near, None)):
                threading.Thread(target=self._pump, args=(source, sink, kept), daemon=True).start()

    @staticmethod
    def _pump(source, sink, kept):
        try:
            while data := source.recv(1 << 16):
                if kept is not None:
                    kept += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.close()


def in_pieces(words):
    """As a transfer's socket frames what a session says."""
    return b"\0" + struct.pack("<I", len(words)) + bytes(words)


class Crowd:
    """Connections of all kinds, drawn from a seed. `valid`: conversations that members of the cluster had."""

    def __init__(self, valid, seed):
        self.random = random.Random(seed)
        self.valid = [bytes(one) for one in valid] + [in_pieces(one[:600]) for one in valid] + HTTP
        self.kinds, self.refused, self.open = collections.Counter(), 0, collections.deque()

    def words(self):
        draw = self.random
        kind = draw.choice(("noise", "truncated", "replayed", "valid then garbage", "changed", "silent"))
        valid = draw.choice(self.valid)
        self.kinds[kind] += 1
        if kind == "noise":
            return draw.choice((draw.randbytes(draw.randrange(1, 4096)), bytes(64), b"\xff" * 4096, b"\x16\x03\x01\xff\xff" + draw.randbytes(200)))
        if kind == "truncated":
            return valid[:draw.randrange(1, len(valid))]
        if kind == "replayed":
            return valid
        if kind == "valid then garbage":
            return valid[:draw.randrange(1, len(valid) + 1)] + draw.randbytes(draw.randrange(1, 2048))
        if kind == "changed":
            changed = bytearray(valid)
            for _ in range(draw.randrange(1, 4)):
                changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
            return bytes(changed)
        return b""

    def meet(self, address):
        is_tcp = address[0] == "tcp"
        stranger = socket.socket(socket.AF_INET if is_tcp else socket.AF_UNIX, socket.SOCK_STREAM if is_tcp else socket.SOCK_SEQPACKET)
        stranger.settimeout(20)
        try:
            stranger.connect(address[1:] if is_tcp else address[1])
        except ConnectionRefusedError:
            self.refused += 1
            stranger.close()
            return
        self.open.append(stranger)
        try:
            stranger.sendall(self.words())
            if self.random.random() < 0.3:
                stranger.shutdown(socket.SHUT_WR)
        except OSError:  # it was shown the door meanwhile
            pass
        if len(self.open) > HELD:
            self.leave(self.open.popleft())

    def leave(self, stranger):
        if self.random.random() < 0.5:  # without a word
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stranger.close()

    def come(self, addresses, count):
        for number in range(count):
            self.meet(addresses[number % len(addresses)])

    def go(self):
        while self.open:
            self.leave(self.open.popleft())
