# SPDX-License-Identifier: MIT
"""A model hub as the public one speaks: repository lists with checksums, redirects to a storage server, ranges, tokens. Faults on demand."""
import hashlib
import http.server
import json
import re
import threading
import urllib.parse


def git_blob(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Hub:
    """Two servers: the hub, and the storage that large files are redirected to with a signed address."""

    def __init__(self, files, name="org/name", commit="1" * 40, token=None, chunk=65536):
        self.files, self.name, self.commit, self.token, self.chunk = dict(files), name, commit, token, chunk
        self.large = 1000           # bytes from which a file is large
        self.cut_after = None       # bytes after which a transfer's connection is closed
        self.cuts_left = 0
        self.busy_left = 0          # so many requests are answered 503
        self.corrupt = set()        # files whose bytes are wrong
        self.no_ranges = False
        self.pause = None           # called between chunks
        self.asked = []             # (path, range, has a token) of every GET
        self.lock = threading.Lock()
        self.storage = self.start(self.serve_storage)
        self.hub = self.start(self.serve_hub)
        self.url = f"http://127.0.0.1:{self.hub.server_address[1]}"

    def start(self, serve):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                serve(self)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                pass  # a client that leaves

        server = Server(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def close(self):
        for server in (self.hub, self.storage):
            server.shutdown()
            server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    @staticmethod
    def answer(request, status, body=b"", **headers):
        request.send_response(status)
        for key, value in headers.items():
            request.send_header(key.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def note(self, request):
        with self.lock:
            self.asked.append((request.path, request.headers.get("Range"), "Authorization" in request.headers))
            if self.busy_left > 0:
                self.busy_left -= 1
                return False
        return True

    def serve_hub(self, request):
        if not self.note(request):
            return self.answer(request, 503)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return self.answer(request, 401)
        path = urllib.parse.urlparse(request.path).path
        if re.fullmatch(f"/api/models/{self.name}/revision/(main|v1|{self.commit})", path):
            siblings = []
            for name, content in self.files.items():
                one = {"rfilename": name, "size": len(content), "blobId": git_blob(content)}
                if len(content) >= self.large:
                    one["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
                siblings.append(one)
            body = {"_id": "x", "id": self.name, "sha": self.commit, "siblings": siblings}
            return self.answer(request, 200, json.dumps(body).encode(), Content_Type="application/json")
        prefix = f"/{self.name}/resolve/{self.commit}/"
        name = urllib.parse.unquote(path[len(prefix):]) if path.startswith(prefix) else None
        if name not in self.files:
            return self.answer(request, 404)
        if len(self.files[name]) < self.large:
            return self.send_file(request, name)
        where = f"http://127.0.0.1:{self.storage.server_address[1]}/blob/{urllib.parse.quote(name)}?sig=a%2Fb&x=1"
        return self.answer(request, 302, b"moved", Location=where, X_Linked_Etag=f'"{hashlib.sha256(self.files[name]).hexdigest()}"')

    def serve_storage(self, request):
        if not self.note(request):
            return self.answer(request, 503)
        url = urllib.parse.urlparse(request.path)
        if url.query != "sig=a%2Fb&x=1" or "Authorization" in request.headers:
            return self.answer(request, 403)
        return self.send_file(request, urllib.parse.unquote(url.path[len("/blob/"):]))

    def send_file(self, request, name):
        content = self.files[name]
        if name in self.corrupt:
            content = content[:-1] + bytes([content[-1] ^ 1])
        begin = 0
        wanted = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range") or "")
        if wanted and not self.no_ranges:
            begin = int(wanted.group(1))
        request.send_response(206 if begin else 200)
        request.send_header("Content-Length", str(len(content) - begin))
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        request.end_headers()
        sent = 0
        try:
            for at in range(begin, len(content), self.chunk):
                with self.lock:
                    cuts = self.cut_after is not None and sent >= self.cut_after and self.cuts_left > 0
                    self.cuts_left -= cuts
                if cuts:
                    request.connection.close()
                    request.close_connection = True
                    return
                piece = content[at:at + self.chunk]
                request.wfile.write(piece)
                sent += len(piece)
                if self.pause:
                    self.pause(name, at)
        except OSError:
            request.close_connection = True
