#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A client whose streams survive the death of a router of the cluster. Python's standard library alone.

    scripts/resume_stream.py http://router-a:8000 http://router-b:8000 /v1/chat/completions < request.json

Every event of a stream of a cluster has an id. When a connection ends before the stream does, the same request is sent
again, to another router, with the last id that came as the header Last-Event-ID; the answer is the rest of the stream.
"""
import http.client
import json
import os
import sys
import time
import urllib.parse

LAST_EVENTS = ("message_stop", "response.completed", "response.incomplete", "response.failed")  # beside data: [DONE]


class Refused(Exception):
    """The servers' own words."""

    def __init__(self, status, body):
        super().__init__(f"{status}: {body[:500]}")
        self.status, self.body = status, body


def read_events(response):
    """The events of an answer as (id, name, data), as far as they come."""
    event = {}
    for line in response:
        line = line.rstrip(b"\r\n").decode()
        if line:
            field, _, value = line.partition(": ")
            event[field] = value  # a comment has the empty name
            continue
        if "data" in event:
            yield event.get("id"), event.get("event"), event["data"]
        event = {}


def open_stream(url, path, body, headers, timeout):
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=timeout)
    connection.request("POST", path, body, headers)
    return connection, connection.getresponse()


def stream(urls, path, request, headers=None, patience=60, timeout=30, on_cut=None):
    """Yields (name, data) of each event once, in order, whichever routers die meanwhile. `patience`: how many seconds may
    pass without a new event; on_cut(error) hears of each cut."""
    body = json.dumps({**request, "stream": True})
    headers, last, number = {"Content-Type": "application/json", **(headers or {})}, None, 0
    give_up = time.monotonic() + patience
    while True:
        if last:
            headers["Last-Event-ID"] = last
        wait, error, connection = 0.05, None, None
        try:
            connection, response = open_stream(urls[number % len(urls)], path, body, headers, timeout)
            if response.status != 200:
                error = Refused(response.status, response.read().decode("utf-8", "replace"))
                wait = min(1.0, float(response.headers.get("Retry-After") or wait))
                if response.status not in (429, 500, 502, 503, 504):
                    raise error
            else:
                for event_id, name, data in read_events(response):
                    if event_id is None and last and "error" in data[:200]:
                        error = Refused(503, data)  # in the stream: the cluster, not the request, has a problem
                        break
                    last, give_up = event_id or last, time.monotonic() + patience
                    yield name, data
                    if data == "[DONE]" or name in LAST_EVENTS:
                        return
                error = error or ConnectionError("the stream ended before its end")
        except (OSError, http.client.HTTPException) as gone:
            error = gone
        finally:
            if connection:
                connection.close()
        if on_cut:
            on_cut(error)
        if time.monotonic() > give_up:
            raise error
        number += 1
        time.sleep(wait if number >= len(urls) else 0)


def main():
    *urls, path = sys.argv[1:]
    key = os.environ.get("CHEETAH_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    for name, data in stream(urls, path, json.load(sys.stdin), headers, on_cut=lambda error: print(f"({error})", file=sys.stderr)):
        print(f"{name}: {data}" if name else data, flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
