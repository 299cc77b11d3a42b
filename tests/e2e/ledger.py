# SPDX-License-Identifier: MIT
"""A client that writes down every event of its streams and checks them against what an undisturbed server says."""
import http.client
import json
import time

PATIENCE = 60
STATUSES = {200, 429, 500, 502, 503, 504}  # the whole list: nothing else may answer a good request
FINISHES = {"stop", "length"}


class Broken(AssertionError):
    """An invariant does not hold."""


def check(holds, what, stream):
    if not holds:
        raise Broken(f"{what}: {stream.body} got {stream.events[-3:]} {stream.choices}")


class Stream:
    """One streamed request: what came, per choice, and how it ended."""

    def __init__(self, path, body):
        self.path, self.body = path, {**body, "stream": True, "stream_options": {"include_usage": True}}
        self.events, self.choices, self.usage = [], {}, None
        self.status, self.error, self.done, self.cut = None, None, False, None

    def run(self, port, on_event=None):
        """Reads to the end, whatever end that is. on_event(number of events) is called after each."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.began = time.monotonic()
        try:
            connection.request("POST", self.path, json.dumps(self.body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            self.status = response.status
            if response.status != 200:
                self.error = json.loads(response.read())["error"]
            else:
                self._read(response, on_event)
        except (OSError, http.client.HTTPException) as cut:  # the server is gone
            self.cut = repr(cut)
        finally:
            connection.close()
        self.seconds = time.monotonic() - self.began
        return self

    def _read(self, response, on_event):
        for line in response:
            if not line.startswith(b"data: "):
                continue
            check(not self.done, "nothing follows [DONE]", self)
            data = line[6:].strip()
            if data == b"[DONE]":
                self.done = True
                continue
            self._take(json.loads(data))
            if on_event:
                on_event(len(self.events))
        if not self.done:
            self.cut = "the stream ended without its end"

    def _take(self, event):
        self.events.append(event)
        if "error" in event:
            check(self.error is None, "one error", self)
            self.error = event["error"]
            return
        check(self.error is None, "nothing follows an error", self)
        if event.get("usage"):
            self.usage = event["usage"]
        for part in event["choices"]:
            choice = self.choices.setdefault(part["index"], {"text": "", "tokens": [], "finish": None})
            check(choice["finish"] is None, "nothing follows the end of a choice", self)
            choice["text"] += part["text"] if "text" in part else part["delta"].get("content") or ""
            logprobs = part.get("logprobs") or {}
            choice["tokens"] += logprobs.get("tokens") or [token["token"] for token in logprobs.get("content") or []]
            choice["finish"] = part["finish_reason"]

    def ended_well(self):
        return self.status == 200 and self.error is None and self.cut is None

    def check(self, oracle):
        """Against the same request at an undisturbed server."""
        check(self.status is None or self.status in STATUSES, "I4: a status from the list", self)
        for index, choice in self.choices.items():
            whole = oracle.choices[index]
            check(whole["text"].startswith(choice["text"]), "I1: the text is a beginning of what it should be", self)
            check(whole["tokens"][:len(choice["tokens"])] == choice["tokens"], "I1: and so are the tokens", self)
            if choice["finish"] is not None:
                check(choice == whole, "I1: an ended choice is whole", self)
        if self.error is not None:
            check(self.error.get("message"), "I4: an error says what it is", self)
            return
        if not self.ended_well():
            check(not self.done, "I2: a broken stream does not say that it is done", self)
            return
        check(self.done, "I2: a stream ends with [DONE]", self)
        check(self.choices.keys() == oracle.choices.keys() and all(c["finish"] in FINISHES for c in self.choices.values()),
              "I2: every choice ends once", self)
        check(self.usage and all(self.usage[key] == oracle.usage[key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")),
              "I3: usage is what was delivered", self)


STORY = ("Once upon a time there was a little cat who lived in a small house near the sea. Every morning the cat went out to look for "
         "fish and every evening it came home and told the dog what it had seen. One day the sky was dark and the wind was strong. ")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 24}, "age": {"type": "integer"},
                                           "friends": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3}},
          "required": ["name", "age", "friends"], "additionalProperties": False}


def bodies(model, tokens=160):
    """Requests of every kind whose answers never change: (path, body)."""
    base = {"model": model, "max_tokens": tokens, "temperature": 0}
    prompts = [STORY * 3, STORY * 2 + "The cat was afraid. ", STORY * 5, "The dog said: "]  # 5 to 285 tokens
    kinds = [{}, {"ignore_eos": True}, {"temperature": 1.0, "seed": 11, "ignore_eos": True}, {"temperature": 0.9, "seed": 5, "n": 3},
             {"temperature": 0.8, "seed": 3, "stop": [" happily", "and they"], "ignore_eos": True}, {"guided_json": SCHEMA, "temperature": 0.7, "seed": 9},
             {"frequency_penalty": 0.8, "presence_penalty": 0.3, "ignore_eos": True}, {"logprobs": 2, "ignore_eos": True},
             {"guided_regex": "(cat|dog), [a-z ]{5,60}[.]", "n": 2, "temperature": 1.1, "seed": 4}]
    for number, kind in enumerate(kinds):
        for prompt in prompts[number % 2::2]:
            yield "/v1/completions", {**base, "prompt": prompt, **kind}
    yield "/v1/chat/completions", {**base, "messages": [{"role": "user", "content": STORY * 2}], "ignore_eos": True, "logprobs": True}


class Oracle:
    """What a single server answers."""

    def __init__(self, server, model, tokens=160):
        self.asks = list(bodies(model, tokens))
        self.answers = [Stream(path, body).run(server.port) for path, body in self.asks]
        for answer in self.answers:
            check(answer.ended_well() and answer.done, "the undisturbed server answers", answer)

    def ask(self, number, port, on_event=None, salt=None):
        """One of the requests again, elsewhere; its ledger is checked. Under a new salt no cache knows its prompt."""
        number %= len(self.asks)
        path, body = self.asks[number]
        stream = Stream(path, {**body, "cache_salt": salt} if salt else body).run(port, on_event)
        stream.check(self.answers[number])
        return stream
