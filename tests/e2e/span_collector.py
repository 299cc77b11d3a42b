# SPDX-License-Identifier: MIT
"""A receiver of OTLP traces."""
import http.server
import json
import threading
import time


class Collector(http.server.ThreadingHTTPServer):
    """Keeps the spans that OTLP exporters post."""

    daemon_threads = True

    def __init__(self):
        spans = self.spans = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for resource in body["resourceSpans"]:
                    for scope in resource["scopeSpans"]:
                        spans.extend(scope["spans"])
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def wait_for(self, find, patience):
        """What `find` makes of the spans that have come, once it is something."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if found := find(list(self.spans)):
                return found
            time.sleep(0.05)
        raise AssertionError(f"only {sorted((span['traceId'], span['name']) for span in self.spans)}")

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"
