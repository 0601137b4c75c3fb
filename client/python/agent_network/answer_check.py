"""Checks answers by their forms: a service, or whoever is between, may send anything. Fields that a form does not name pass."""
from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .forms import FORMS, PATTERNS

_LAST_SECOND = 253_402_300_799  # the end of the year 9999
_LARGEST_WHOLE = 2**53 - 1
_KINDS = {"s": "text", "n": "a number", "i": "a whole number", "t": "a whole number", "b": "true or false", "z": "null", "a": "a list", "o": "an object"}
_TEXTS = dict(line.split(" ", 1) for line in FORMS)


class _Form(NamedTuple):
    """What a value must be. `kinds`: letters of _KINDS, of which it is one; none: any value."""

    kinds: str = ""
    name: str = ""  # of another form, which it has
    pattern: str = ""
    least: float = float("-inf")
    most: float = float("inf")
    items: Optional[_Form] = None
    fields: Dict[str, Tuple[_Form, bool]] = {}  # with whether it must be there
    others: Optional[_Form] = None
    one_of: List[List[str]] = []  # names, or name=true, of which those of one list are there
    any_of: List[_Form] = []
    all_of: List[_Form] = []


class _Reader:
    """Reads a form; the notation is that of the script that generates forms.py."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def _take(self, pattern: str) -> str:
        """What matches at the place that is reached; "" if nothing does."""
        match = re.compile(pattern).match(self._text, self._at)
        self._at = match.end() if match else self._at
        return match.group() if match else ""

    def form(self, end: str = "") -> _Form:
        parts = [self._both()]
        while self._take(r"\|"):
            parts.append(self._both())
        self._take(end)
        return parts[0] if len(parts) == 1 else _Form(any_of=parts)

    def _both(self) -> _Form:
        parts = [self._one()]
        while self._take("&"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else _Form(all_of=parts)

    def _one(self) -> _Form:
        name = self._take(r"[A-Z]\w*")
        if name:
            return _Form(name=name)
        kinds, pattern = self._take("[a-z]+"), self._take(r"/\d+")[1:]
        least, most = self._take(r">\d+")[1:], self._take(r"<\d+")[1:]
        bounds = (float(least or "-inf"), float(most or (_LAST_SECOND if "t" in kinds else "inf")))
        items = self.form(r"\]") if self._take(r"\[") else None
        fields: Dict[str, Tuple[_Form, bool]] = {}
        if self._take(r"\{"):
            field = self._take(r"\w+")
            while field:
                is_needed = not self._take(r"\?")
                self._take(" ")
                fields[field] = (self.form(",?"), is_needed)
                field = self._take(r"\w+")
            self._take(r"\}")
        others = self.form(r"\)") if self._take(r"\*\(") else None
        one_of = [words.split(" ") for words in self._take("#[^#]*#").strip("#").split(";") if words]
        expression = PATTERNS[int(pattern)].replace("$", r"\Z").replace(r"\d", "[0-9]") if pattern else ""
        return _Form(kinds, "", expression, *bounds, items, fields, others, one_of)


@lru_cache(maxsize=None)
def _form_of(name: str) -> _Form:
    return _Reader(_TEXTS.get(name, "")).form()


def find_problem(name: str, value: Any) -> Optional[str]:
    """What is wrong with an answer of this name, beginning with its place: "posts[2].at: expected a whole number". None if nothing is."""
    return _problem(_form_of(name), value, "")


def _is_kind(letter: str, value: Any) -> bool:
    if letter in "itn":
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and (letter == "n" or (0 <= value <= _LARGEST_WHOLE and value == int(value)))
    types = {"s": str, "b": bool, "z": type(None), "a": list, "o": dict}
    return isinstance(value, types[letter])


def _problem(form: _Form, value: Any, path: str) -> Optional[str]:
    if form.name:
        return _problem(_form_of(form.name), value, path)
    place = path or "it"
    if form.any_of:
        problems = [_problem(part, value, path) for part in form.any_of]
        return None if None in problems else problems[0]
    for part in form.all_of:
        problem = _problem(part, value, path)
        if problem is not None:
            return problem
    if form.kinds and not any(_is_kind(letter, value) for letter in form.kinds):
        return f"{place}: expected {' or '.join(_KINDS[letter] for letter in form.kinds)}"
    if form.pattern and isinstance(value, str) and not re.search(form.pattern, value):
        return f"{place}: expected text of the form {form.pattern}"
    if isinstance(value, (int, float)) and not isinstance(value, bool) and set(form.kinds) & set("int") and not form.least <= value <= form.most:
        return f"{place}: expected a number from {form.least:.0f} to {form.most:.0f}"
    if isinstance(value, list) and form.items is not None:
        return _first(form.items, value, path)
    return _problem_within(form, value, path) if isinstance(value, dict) else None


def _first(form: _Form, items: List[Any], path: str) -> Optional[str]:
    problems = (_problem(form, item, f"{path}[{index}]") for index, item in enumerate(items))
    return next((problem for problem in problems if problem is not None), None)


def _problem_within(form: _Form, value: Dict[str, Any], path: str) -> Optional[str]:
    """What is wrong with a field of an object."""

    def holds(word: str) -> bool:
        field, _, fixed = word.partition("=")
        return value.get(field) is (fixed == "true") if fixed else field in value

    prefix = f"{path}." if path else ""
    for field, (_, is_needed) in form.fields.items():
        if is_needed and field not in value:
            return f"{prefix}{field}: expected a value"
    if form.one_of and not any(all(map(holds, words)) for words in form.one_of):
        return f"{path or 'it'}: expected {'; or '.join(', '.join(words) for words in form.one_of)}"
    for field, part in value.items():
        of = form.fields[field][0] if field in form.fields else form.others
        problem = None if of is None else _problem(of, part, f"{prefix}{field}")
        if problem is not None:
            return problem
    return None
