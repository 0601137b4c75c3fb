"""Solves the puzzles of registration challenges by reading their questions."""
from __future__ import annotations

import re
from typing import Callable, Dict, List, Match

from . import wire

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


def _decode_hex(question: str) -> str:
    return bytes.fromhex(_find(r": ([0-9a-fA-F ]+)$", question)[1]).decode("ascii")


SOLVERS: Dict[str, Callable[[str], str]] = {
    "arithmetic": _arithmetic,
    "sort-words": _sort_words,
    "decode-hex": _decode_hex,
}
