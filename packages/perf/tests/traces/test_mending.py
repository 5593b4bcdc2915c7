"""Traces that are whole and no clean JSON: read as they are meant, or refused with the byte where they break."""

import gzip
import json
import re

import numpy as np
import pytest

from nightshift.runtime.errors import UserError
from nightshift_perf.traces import mending, texts
from packages.perf.tests.traces.samples import Events, read

ARGUMENT = '"mark": 1'
BARE = [
    "N/A",
    "NaN",
    "-nan",
    "-nan(ind)",
    "Infinity",
    "-inf",
    "None",
    "undefined",
    "+1.5",
    "1.",
    ".5",
    "007",
    "0x1F",
    "",
]
TEXTS = {  # what stands between the quotes -> what is meant; control characters may become blanks
    "a\nb": "a\nb",
    "a\tb\x01": "a\tb\x01",
    'f("x")': 'f("x")',
    'f("x", "y")': 'f("x", "y")',
    '"': '"',
    r"C:\Users\me": r"C:\Users\me",
    "C:\\data\\": "C:\\data\\",
    r"\d+ \xZZ \u12": r"\d+ \xZZ \u12",
    'a \\"},{\\" [ N/A, nan]': 'a "},{" [ N/A, nan]',
    "naïve ✓": "naïve ✓",
}
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


def whole():
    events = Events(zero=0.0)
    for step in range(4):
        events.steps((1000 * step, 1000 * step + 1000))
        for number in range(3):
            events.kernel("sgemm", 1000 * step + 300 * number, 200, launched=(1000 * step + 300 * number - 5, 3))
    return events


def text(indent=None, argument=ARGUMENT):
    """Return a trace with an argument in three of its events."""
    events = whole()
    for event in events.events[3:12:4]:
        event["args"]["mark"] = 1
    return json.dumps(events.value(), indent=indent).replace(ARGUMENT, argument)


def figures(trace):
    """Return all that is said of a trace, but for what had to be mended."""
    return (trace.work.tolist(), trace.host.tolist(), trace.steps.tolist(), trace.names)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return figures(read(tmp_path_factory.mktemp("clean"), text().encode()))


SHAPES = {
    "commas too many": lambda t: t.replace("}}, {", "}},, {").replace("}}]", "},}, ]"),
    "a list": lambda t: t[t.index("[") : t.rindex("]") + 1],
    "a list without its end": lambda t: t[t.index("[") : t.rindex("]")],
    "a list that ends with a comma": lambda t: t[t.index("[") : t.rindex("]")] + ",\n",
    "keys twice": lambda t: t.replace('"ph": "X"', '"ph": "M", "ph": "X"'),
    "another list behind": lambda t: t.replace("]}", '], "a": 1, "traceEvents": []}', 1) if t.endswith("]}") else t,
    "numbers as text": lambda t: re.sub(r'"(ts|dur)": ([\d.]+)', r'"\1": "\2"', t),
    "whole numbers": lambda t: re.sub(r'"(ts|dur)": (\d+)\.0\b', r'"\1": \2', t),
    "no numbers beside the events": lambda t: t.replace("{", '{"a": NaN, "b": N/A, ', 1),
    "an end of zeros": lambda t: t + "\0" * 512,
    "nanoseconds shown": lambda t: t.replace("{", '{"displayTimeUnit": "ns", "baseTimeNanoseconds": 17e17, ', 1),
}


PACKS = {"json": bytes, "json.gz": gzip.compress}
LONG = "a " * 10_000 + '\\"},{\\" ' * 40  # than the window in which errors are looked for, with what looks like its end
HALF = len(text()) // 2
SAME = {
    **{
        f"{word!r} for a number, {name}": pack(text(argument=f'"mark": {word}').encode())
        for word in BARE
        for name, pack in PACKS.items()
    },
    **{
        f"the text {written!r}, indented by {indent}": text(indent, f'"mark": "{written}"').encode()
        for written in TEXTS
        for indent in (None, 1)
    },
    **{
        f"a long event with {mark}": text(argument=f'"long": "{LONG}", "mark": {mark}').encode()
        for mark in ("1", "NaN", "N/A")
    },
    **{f"{encoding}, {name}": pack(text().encode(encoding)) for encoding in ENCODINGS for name, pack in PACKS.items()},
    **{name: shape(text()).encode() for name, shape in SHAPES.items()},
    "a gzip file with something behind it": gzip.compress(text().encode()) + b"\0" * 100 + b"garbage",
    "a gzip file of two members": gzip.compress(text()[:HALF].encode()) + gzip.compress(text()[HALF:].encode()),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_no_clean_json_is_the_same_trace(name, clean, tmp_path):
    assert figures(read(tmp_path, SAME[name])) == clean


@pytest.mark.parametrize(("written", "meant"), TEXTS.items(), ids=map(repr, TEXTS))
def test_a_text_that_is_no_json_is_read_as_it_is_meant(written, meant):
    value, _, _ = mending.read(f'{{"name": "{written}", "ph": "X"}}]', 0, 0)
    assert re.sub(r"[\s\x01]", " ", value["name"]) == re.sub(r"[\s\x01]", " ", meant)


@pytest.mark.parametrize("seed", range(20))
def test_dirt_anywhere_and_pieces_of_any_length_change_nothing(seed, clean, tmp_path, monkeypatch):
    random = np.random.default_rng(seed)
    monkeypatch.setattr(texts, "PIECE", int(random.integers(60, 3000)))
    words = [f'"mark": {word}' for word in BARE] + [f'"mark": "{written}"' for written in TEXTS]
    dirty = re.sub(ARGUMENT, lambda _: words[random.integers(len(words))], text(random.choice([None, 1])))
    assert figures(read(tmp_path, dirty.encode())) == clean


@pytest.mark.parametrize("dirt", ["1", "N/A", '"f("x")"'])
@pytest.mark.parametrize("share", np.linspace(0.05, 0.999, 12))
def test_a_file_that_was_cut_off_is_refused_with_the_byte(dirt, share, tmp_path):
    content = text(argument=f'"mark": {dirt}').encode()
    cut = content[: int(share * len(content))]
    with pytest.raises(UserError, match=r"truncated or broken at byte [\d,]+ of its text") as caught:
        read(tmp_path, cut)
    assert int(re.search(r"byte ([\d,]+)", str(caught.value))[1].replace(",", "")) <= len(cut)


def test_the_byte_is_that_of_the_file(tmp_path):
    content = text().encode()
    at = content.index(b'"dur"', len(content) // 2)
    with pytest.raises(UserError, match=f"at byte {at:,} "):
        read(tmp_path, content[:at] + b"}" + content[at:])
