"""One request at a time over urllib: no redirect is followed, nothing is sent twice but a GET after a 503."""
from __future__ import annotations

import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, TypeVar

from .answer_check import find_problem
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

    def get(self, path: str, query: Optional[Mapping[str, Any]] = None, own: bool = False, once: bool = False, form: str = "") -> Any:
        """A GET, tried again after a 503 that says when, unless `once`. `form`: the name of its answer's form, if it has one."""
        url = path + _query_text(query)
        for repeat in range(MAX_REPEATS + 1):
            try:
                return self._answer("GET", url, None, own, form)
            except Refusal as error:
                wait = error.retry_after
                is_last = once or repeat == MAX_REPEATS
                if is_last or error.status != 503 or wait is None or wait > MAX_RETRY_AFTER:
                    raise
                time.sleep(wait)
        raise AssertionError("not reached")

    def post(self, path: str, body: Optional[Mapping[str, Any]] = None, own: bool = True, form: str = "") -> Any:
        """A POST, sent once."""
        given = {name: value for name, value in (body or {}).items() if value is not None}
        return self._answer("POST", path, given, own, form)

    def delete(self, path: str, own: bool = True, form: str = "") -> Any:
        """A DELETE, sent once."""
        return self._answer("DELETE", path, None, own, form)

    def text(self, path: str, query: Optional[Mapping[str, Any]] = None) -> str:
        """A GET whose answer is text."""
        return self._send("GET", path + _query_text(query), None, False)

    def _answer(self, method: str, path: str, body: Optional[Mapping[str, Any]], own: bool, form: str) -> Any:
        """Sends a request and parses its answer, an object with `ok` and of that form, or the OpenAPI document."""
        text = self._send(method, path, body, own)
        answer = _parse(text)
        if isinstance(answer, dict) and (answer.get("ok") is True or "openapi" in answer):
            problem = find_problem(form, answer) if form else None
            if problem is None:
                return answer
            raise TransportError(f"{method} {path} was not answered as this service does: {problem}.", method != "GET")
        raise TransportError(f"{method} {path} was answered with {text[:60]!r}, which is no answer of this service.", method != "GET")

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
            status, wait, text = _within(self._timeout, lambda deadline: _exchange(request, deadline))
        except (OSError, EOFError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            never_sent = isinstance(reason, ConnectionRefusedError)
            raise TransportError(f"{method} {path} could not be reached ({reason}).", method != "GET" and not never_sent) from error
        if status < 300:
            return text
        refused = _parse(text)
        if isinstance(refused, dict) and isinstance(refused.get("error"), str) and isinstance(refused.get("message"), str):
            raise Refusal(status, refused, float(wait) if wait.isdigit() else None)
        raise TransportError(f"{method} {path} was answered with HTTP {status} and {text[:60]!r}.", method != "GET" and status >= 500)


def _query_text(query: Optional[Mapping[str, Any]]) -> str:
    """A query with its question mark, or nothing; None is left out, and a list is one parameter for each of its texts."""
    given = {name: value for name, value in (query or {}).items() if value is not None}
    return "?" + urllib.parse.urlencode(given, doseq=True) if given else ""


_Result = TypeVar("_Result")


def _within(seconds: float, work: Callable[[float], _Result]) -> _Result:
    """Runs work, which is told by what time (monotonic) it must end. TimeoutError if it does not.

    A thread of its own runs it, since a socket's timeout is for each read, not for all of them together.
    """
    results: List[_Result] = []
    errors: List[BaseException] = []
    deadline = time.monotonic() + seconds

    def run() -> None:
        try:
            results.append(work(deadline))
        except BaseException as error:  # raised again below, in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if results:
        return results[0]
    # Who notices first is chance: this wait, a read, or what is done between two.
    if not errors or _is_timeout(errors[0]):
        raise TimeoutError(f"no whole answer within {seconds} s")
    raise errors[0]


def _is_timeout(error: BaseException) -> bool:
    """Whether it says that time is over, as a socket does (before Python 3.10 by another class), or urllib for it."""
    return isinstance(getattr(error, "reason", error), (TimeoutError, socket.timeout))


def _exchange(request: urllib.request.Request, deadline: float) -> Tuple[int, str, str]:
    """Sends a request and reads the whole answer: its status, Retry-After and text."""
    try:
        response = _OPENER.open(request, timeout=max(0.001, deadline - time.monotonic()))
    except urllib.error.HTTPError as error:
        response = error
    with response:
        status: int = response.status
        wait: str = response.headers.get("Retry-After", "")
        try:
            return status, wait, _read(response, deadline)
        except (OSError, EOFError, ValueError, http.client.HTTPException) as error:
            if status < 300 or _is_timeout(error):
                raise
            return status, wait, ""  # a refusal that can't be read


def _parse(text: str) -> Any:
    """JSON, or None for other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read(response: Any, deadline: float) -> str:
    """The text of an answer. ValueError beyond 16 MiB, before or after decompression."""
    announced = response.headers.get("Content-Length", "")
    left = int(announced) if announced.isdigit() else MAX_ANSWER_BYTES + 1
    raw = bytearray()
    while left > 0:
        part: bytes = response.read1(min(2**16, left))
        if not part:
            break
        raw += part
        left -= len(part)
        if len(raw) > MAX_ANSWER_BYTES:
            raise ValueError("an answer of more than 16 MiB")
        if time.monotonic() > deadline:
            raise TimeoutError
    if announced.isdigit() and left > 0:
        raise EOFError("the answer broke off")
    if response.headers.get("Content-Encoding") != "gzip":
        return raw.decode()
    inflating = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        plain = inflating.decompress(raw, MAX_ANSWER_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"gzip that is broken ({error})") from None
    if len(plain) > MAX_ANSWER_BYTES or not inflating.eof:
        raise ValueError("gzip that is broken, or of more than 16 MiB")
    return plain.decode()
