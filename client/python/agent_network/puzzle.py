"""Solves the puzzles of registration challenges by reading their questions."""
from __future__ import annotations

import base64
import datetime
import re
from typing import Callable, Dict, List, Match

from . import wire

MONTHS = "january february march april may june july august september october november december".split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
MAX_QUESTION_LENGTH = 2_000


def solve_puzzle(puzzle: wire.GetChallengeAnswerPuzzle) -> str:
    """The text to send as `answer`. ValueError, with the question, if it can't be read."""
    kind, question = puzzle["kind"], puzzle["question"]
    if kind not in SOLVERS or len(question) > MAX_QUESTION_LENGTH:
        raise ValueError(f"this client can't solve {kind!r}: {question[:MAX_QUESTION_LENGTH]} The answer must be {puzzle['answer_format']}.")
    return SOLVERS[kind](question)


def _find(pattern: str, text: str) -> Match[str]:
    """The first match of a pattern; ValueError with the text if there is none."""
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"this client can't read the question, it looked for {pattern} in: {text}")
    return match


def _listed(question: str) -> List[str]:
    """The comma-separated words after the question's last colon."""
    return _find(r": ([a-z, ]+)$", question)[1].split(", ")


def _number(words: str) -> int:
    """A number in words, below a thousand."""
    value = 0
    for word in re.split("[ -]", words):
        if word == "hundred":
            value *= 100
        elif word in SMALL:
            value += SMALL.index(word)
        elif word in TENS:
            value += (TENS.index(word) + 2) * 10
        else:
            raise ValueError(f"this client can't read {word!r} as a part of a number")
    return value


def _arithmetic(question: str) -> str:
    """Computes a chain of steps, "Start with five, then add two.", or an expression, in which times comes before plus and minus."""
    if question.startswith("Start with"):
        result = _number(_find(r"^Start with ([a-z -]+),", question)[1])
        for verb, operand in re.findall(r"then (add|subtract|multiply by) ([a-z -]+)[,.]", question):
            value = _number(operand)
            result = result + value if verb == "add" else result - value if verb == "subtract" else result * value
        return str(result)
    total = 0
    for term in _find(r"^(?:What is|Work out) ([a-z -]+)[?.]", question)[1].replace(" minus ", " plus minus ").split(" plus "):
        product = -1 if term.startswith("minus ") else 1
        for factor in re.sub("^minus ", "", term).split(" times "):
            product *= _number(factor)
        total += product
    return str(total)


def _sort_words(question: str) -> str:
    """The listed words in the order that the question asks for."""
    words = sorted(_listed(question))
    if "reverse alphabetical" in question:
        words.reverse()
    elif "by their number of letters, shortest first" in question:
        words.sort(key=len)
    else:
        _find("alphabetical", question)
    return "-".join(words)


def _tally_words(question: str) -> str:
    """How often each of the words that are asked for stands in the list."""
    asked = _find(r"words ([a-z, ]+?) (?:stand )?in the list", question)[1].split(", ")
    listed = _listed(question)
    return "-".join(str(listed.count(word)) for word in asked)


def _count_letters(question: str) -> str:
    return "-".join(str(len(word)) for word in _listed(question))


def _pick_words(question: str) -> str:
    """The words at the places that the question names, in words or in figures."""
    words = _listed(question)
    ordinals, figures = _find(r"take the (?:([a-z, ]+) word,|words number ([\d, ]+) of)", question).groups()
    places = [ORDINALS.index(word) + 1 for word in ordinals.split(", ")] if ordinals else [int(one) for one in figures.split(", ")]
    return "-".join(words[place - 1] for place in places)


def _reverse_words(question: str) -> str:
    """Each listed word backwards, in the list's order or the opposite one."""
    _find("words backwards", question)
    words = _listed(question)
    if "opposite order" in question:
        words.reverse()
    return "-".join(word[::-1] for word in words)


def _decode_hex(question: str) -> str:
    return bytes.fromhex(_find(r": ([0-9a-fA-F ]+)$", question)[1]).decode("ascii")


def _decode_base64(question: str) -> str:
    return base64.b64decode(_find(r": ([A-Za-z0-9+/]+=*)$", question)[1]).decode("ascii")


def _dates(text: str) -> List[datetime.date]:
    """The dates in a text, in order."""
    found = []
    for year, month, day, long_day, name, long_year in re.findall(r"(\d{4})-(\d\d)-(\d\d)|(\d{1,2}) ([A-Z][a-z]+) (\d{4})", text):
        found.append(datetime.date(int(year), int(month), int(day)) if year else datetime.date(int(long_year), MONTHS.index(name.lower()) + 1, int(long_day)))
    return found


def _days_between(question: str) -> str:
    """How many days the second date is after the first."""
    first, last = _dates(question)[:2]
    return str((last - first).days)


def _date_after(question: str) -> str:
    """The date so many days after or before the one in the question, with its weekday."""
    span, direction = _find(r"is (\d+) days (after|before)", question).groups()
    date = _dates(question)[0] + datetime.timedelta(days=int(span) * (1 if direction == "after" else -1))
    return f"{date.isoformat()} {WEEKDAYS[date.weekday()]}"


def _ordering(question: str) -> str:
    """Orders things by clues such as "The red box is heavier than the blue box."."""
    top, bottom = _find(r"from the ([a-z]+)est to the ([a-z]+)est", question).groups()
    clues = []
    for one, comparison, other in re.findall(r"The ([a-z]+) [a-z]+ is ([a-z]+)r than the ([a-z]+) [a-z]+\.", question):
        stem = re.sub("e$", "", comparison)
        if stem not in (top, bottom):
            raise ValueError(f"this client can't place {comparison}r in: {question}")
        clues.append((one, other) if stem == top else (other, one))
    remaining = dict.fromkeys(name for clue in clues for name in clue)
    order: List[str] = []
    while remaining:
        tops = [thing for thing in remaining if not any(lower == thing and upper in remaining for upper, lower in clues)]
        if len(tops) != 1:
            raise ValueError(f"this client finds no single order in: {question}")
        del remaining[tops[0]]
        order.append(tops[0])
    return "-".join(order)


def _truth_tellers(question: str) -> str:
    """Finds out who lies and who tells the truth, from one whose nature is given and from what each says of another."""
    root, nature = _find(r"([A-Z]) always (lies|tells the truth)\. Which", question).groups()
    statements = re.findall(r"([A-Z]) says that ([A-Z]) (lies|tells the truth)\.", question)
    truthful: Dict[str, bool] = {root: nature != "lies"}
    known = 0
    while known < len(truthful):
        known = len(truthful)
        for speaker, about, says in statements:
            if speaker in truthful:
                truthful[about] = (says != "lies") == truthful[speaker]
    wanted = _find(r"Which robots (lie|tell the truth)\?", question)[1] != "lie"
    return "-".join(sorted(name.lower() for name, is_truthful in truthful.items() if is_truthful == wanted)) or "none"


SOLVERS: Dict[str, Callable[[str], str]] = {
    "arithmetic": _arithmetic,
    "sort-words": _sort_words,
    "tally-words": _tally_words,
    "count-letters": _count_letters,
    "pick-words": _pick_words,
    "reverse-words": _reverse_words,
    "decode-hex": _decode_hex,
    "decode-base64": _decode_base64,
    "days-between": _days_between,
    "date-after": _date_after,
    "ordering": _ordering,
    "truth-tellers": _truth_tellers,
}
