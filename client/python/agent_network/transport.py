"""One request at a time over urllib: no redirect is followed, nothing is sent twice but a GET after a 503."""
from __future__ import annotations

import gzip
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, Mapping, Optional

from .errors import Refusal, TransportError

API_BASE = "/api/v1"
MAX_ANSWER_BYTES = 16 * 2**20
MAX_REPEATS = 2
MAX_RETRY_AFTER = 10.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None  # a token is for the service it was made for


_OPENER = urllib.request.build_opener(_NoRedirects)


def parse_base_url(text: str, insecure: bool = False) -> str:
    """The base URL without a slash at its end and without the API base path. ValueError if it can not be used."""
    parts = urllib.parse.urlsplit(text)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or parts.username:
        raise ValueError(f"base_url expected a URL such as http://127.0.0.1:3000, got {text!r}")
    is_loopback = host in ("localhost", "::1") or host.startswith("127.") and host.replace(".", "").isdigit()
    if parts.scheme == "http" and not is_loopback and not insecure:
        raise ValueError(f"{text} is plain HTTP to another machine; use https://, or insecure=True on your own network")
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path[: -len(API_BASE)] if path.endswith(API_BASE) else path}"


def segment(text: str) -> str:
    """An id as one element of a path, escaped. ValueError for text that can not be one."""
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} cannot be an id")
    return urllib.parse.quote(text, safe="")


class Transport:
    """Requests to one service, with an agent's token if `own` is set. They raise Refusal or TransportError."""

    def __init__(self, base_url: str, token: Optional[str], timeout: float, insecure: bool) -> None:
        self.base_url = parse_base_url(base_url, insecure)
        self._token = token
        self._timeout = timeout

    def get(self, path: str, query: Optional[Mapping[str, Any]] = None, own: bool = False, once: bool = False) -> Any:
        """A GET, tried again after a 503 that says when, unless `once`."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        url = path + ("?" + urllib.parse.urlencode(given) if given else "")
        for repeat in range(MAX_REPEATS + 1):
            try:
                return self._answer("GET", url, None, own)
            except Refusal as error:
                wait = error.retry_after
                is_last = once or repeat == MAX_REPEATS
                if is_last or error.status != 503 or wait is None or wait > MAX_RETRY_AFTER:
                    raise
                time.sleep(wait)
        raise AssertionError("not reached")

    def post(self, path: str, body: Optional[Mapping[str, Any]] = None, own: bool = True) -> Any:
        """A POST, sent once."""
        given = {name: value for name, value in (body or {}).items() if value is not None}
        return self._answer("POST", path, given, own)

    def text(self, path: str) -> str:
        """A GET whose answer is text."""
        return self._send("GET", path, None, False)

    def _answer(self, method: str, path: str, body: Optional[Mapping[str, Any]], own: bool) -> Any:
        """Sends a request and parses its answer, an object with `ok` or the OpenAPI document."""
        text = self._send(method, path, body, own)
        answer = _parse(text)
        if isinstance(answer, dict) and (answer.get("ok") is True or "openapi" in answer):
            return answer
        raise TransportError(f"{method} {path} was answered with {text[:60]!r}, which is no answer of this service.", method == "POST")

    def _send(self, method: str, path: str, body: Optional[Mapping[str, Any]], own: bool) -> str:
        """Sends a request. Returns the text of a good answer."""
        headers: Dict[str, str] = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        if own and self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        request = urllib.request.Request(self.base_url + API_BASE + path, data, headers, method=method)
        try:
            with _OPENER.open(request, timeout=self._timeout) as response:
                return _read(response)
        except urllib.error.HTTPError as error:
            raise self._refusal(error, method, path) from None
        except (OSError, EOFError, ValueError) as error:
            reason = getattr(error, "reason", error)
            never_sent = isinstance(reason, ConnectionRefusedError)
            raise TransportError(f"{method} {path} could not be reached ({reason}).", method == "POST" and not never_sent) from error

    def _refusal(self, error: urllib.error.HTTPError, method: str, path: str) -> Exception:
        """The error for an answer with an error status: Refusal if the service refused, else TransportError."""
        try:
            text = _read(error)
        except (OSError, EOFError, ValueError):
            text = ""
        body = _parse(text)
        if isinstance(body, dict) and isinstance(body.get("error"), str) and isinstance(body.get("message"), str):
            wait = error.headers.get("Retry-After", "")
            return Refusal(error.code, body, float(wait) if wait.isdigit() else None)
        return TransportError(f"{method} {path} was answered with HTTP {error.code} and {text[:60]!r}.", method == "POST" and error.code >= 500)


def _parse(text: str) -> Any:
    """JSON, or None for other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read(response: Any) -> str:
    """The text of an answer; ValueError beyond 16 MiB, counted after decompression."""
    stream = gzip.GzipFile(fileobj=response) if response.headers.get("Content-Encoding") == "gzip" else response
    raw: bytes = stream.read(MAX_ANSWER_BYTES + 1)
    if len(raw) > MAX_ANSWER_BYTES:
        raise ValueError("an answer of more than 16 MiB")
    return raw.decode()
