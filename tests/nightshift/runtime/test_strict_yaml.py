"""A config's YAML: one value in every reading, or exit code 2 with line, key and what to write."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError
from pipelines import configs

CASES = Path(__file__).parents[4] / "shared" / "cases" / "configs"


def read(text: str | bytes) -> Any:
    return strict_yaml.load(text if isinstance(text, bytes) else text.encode(), "c.yaml")


@pytest.mark.skipif(not CASES.is_dir(), reason="../shared is not here")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bool_int", "line 20, protocol.train_days: is 'yes'; YAML 1.1 reads it as true"),
        ("octal", "line 2, label_delay_days: is '010'; write a decimal number"),
        ("dupkey_section", "line 24, protocol: is given in line 20 already"),
        ("dupkey_top", "line 23, label_delay_days: is given in line 2 already"),
        ("latin1", "line 11, 'numeric' is not UTF-8"),
    ],
)
def test_configs_that_meant_something_else_than_they_said_are_refused(name: str, says: str) -> None:
    with pytest.raises(UserError) as raised:
        configs.load(str(CASES / f"{name}.yaml"))
    assert says in str(raised.value)


WORDS = ["yes", "Yes", "NO", "no", "on", "ON", "off", "Off"]
NUMBERS = [
    "010",
    "007",
    "-010",
    "08",
    "00",
    "0o10",
    "0x1F",
    "0b11",
    "1:30",
    "190:20:30",
    "1_000",
    "1_0.5",
    "01.5",
    "1e",
]
NO_NUMBERS = ["nan", ".nan", ".NaN", "inf", "-.inf", "+Infinity", "~", ""]


@pytest.mark.parametrize("scalar", [*WORDS, *NUMBERS, *NO_NUMBERS, "1e999", "9007199254740993", "9" * 5000])
@pytest.mark.parametrize("form", ["a:\n  b: {}", "a: [1, {}]", "a: {{b: {}}}"])
def test_what_can_be_read_in_more_than_one_way_is_refused_and_in_quotes_is_text(scalar: str, form: str) -> None:
    if not scalar and "[" in form:
        return  # no item at all
    with pytest.raises(UserError, match=r"c\.yaml, line [12], a\.[b1]: is "):
        read(form.format(scalar))
    assert scalar in str(read(form.format(f'"{scalar}"')))


@pytest.mark.parametrize(
    "key", [*WORDS, *NUMBERS, "1", "1.5", "true", "null", "~", "[a, b]", "{a: b}", "<<", "? a\n: 1\n? a"]
)
def test_a_key_is_text(key: str) -> None:
    with pytest.raises(UserError, match=r"c\.yaml, line \d"):
        read(f"a:\n  {key}: 1")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("-7", -7), ("+7", 7), ("0", 0), ("30.0", 30.0), (".5", 0.5), ("1.", 1.0), ("1e-5", 1e-5),
        ("-1.5E+3", -1500.0), ("true", True), ("False", False), ("null", None), ("2025-03-10", "2025-03-10"),
        ("2025-03-10 12:00:00", "2025-03-10 12:00:00"), ("'yes'", "yes"), ("y", "y"), ("\uff11", "\uff11"),
        ("1,5", "1,5"), ("'010'", "010"), ("Größe", "Größe"), ("日本", "日本"), ("=", "="), ("7 days", "7 days"),
        ("0.5.1", "0.5.1"),
    ],
)  # fmt: skip
def test_what_is_clear_is_read_by_yaml_1_2(text: str, value: Any) -> None:
    parsed = read(f"a: {text}")["a"]

    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, a: is given in line 1 already"),
        ('a: {b: 1, "b": 2}', "line 1, a.b: is given in line 1 already"),
        ("a:\n  b:\n    c: 1\n    d: 2\n    'c': 3", "line 5, a.b.c: is given in line 3 already"),
        ("a: [{b: 1, b: 2}]", "line 1, a.0.b: is given in line 1"),
        ("a: &x 1", "line 1, a: is '&x'; an anchor is not read"),
        ("a: *x", "line 1, a: is '*x'; an alias is not read"),
        ("a: !!python/object/apply:os.system [true]", "a tag is not read"),
        ("a: !!int '5'", "a tag is not read"),
        ("a: ! 5", "a tag is not read"),
        ("a: &a [x,x]\nb: &b [*a,*a]", "an anchor is not read"),
        ("a: {<<: {b: 1}}", "a merge key is not read"),
        ("a: 1\n---\nb: 2", "line 2, (top level): is '---'; a second document"),
        ("%YAML 1.1\n---\na: 1", "directives are not read"),
        ("a:\n\tb: 1", "line 2, 'b' is not YAML"),
        ("a: [1", "is not YAML"),
        ("a: [b, Errors?, c]", "line 1, 'a' is not YAML: expected ',' or ']', but got '?'; if 'Errors?' is a text"),
        ("a: b: c", "not YAML: mapping values are not allowed here; if 'b: c' is a text, write it in quotes"),
        ("a: " + "[" * 100_000, "it is nested more than 50 deep"),
        ("a: " + "{b: " * 5000, "it is nested more than 50 deep"),
        ("".join(f"{'  ' * i}a:\n" for i in range(60)), "it is nested more than 50 deep"),
        ("\ufeffa: 1", "line 1: begins with a byte order mark"),
        ("a: 1".encode("utf-16"), "line 1: begins with a byte order mark"),
        ("a: 1".encode("utf-16-le"), "holds the control character U+0000"),
        ("a: 1\nb: Größe".encode("latin-1"), "line 2, 'b' is not UTF-8"),
        ("a: 1\nb: x\0", "line 2, 'b': holds the control character U+0000"),
        ("a: 1\u2028b: 2", "U+2028"),
        ("a: 1\nb: \x1b[31m", "line 2, 'b': holds the control character U+001B"),
        ('a: "x\\0"', "line 1, a: is 'x\\x00'; 'x\\x00' holds the control character U+0000"),
        ("a: " + "x" * 2**20, "a config has at most 1048576"),
    ],
    ids=range(29),
)  # fmt: skip
def test_what_hides_a_value_is_refused_with_its_line(text: str | bytes, says: str) -> None:
    with pytest.raises(UserError) as raised:
        read(text)
    assert says in str(raised.value)
    assert str(raised.value).startswith("c.yaml")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "[]", "- a", "text", "5", "null"])
def test_a_config_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)

    with pytest.raises(UserError, match=r"c\.yaml"):
        configs.load(str(tmp_path / "c.yaml"))


@pytest.mark.parametrize(
    "value",
    [*WORDS, *NUMBERS, *NO_NUMBERS, "1e5", "true", "null", "1", "-.5", "- a", "a: b", "#", "a\tb\nc", " a ", "日本",
     "*x", "=", 7, -1.5, 1e-7, 1e22, True, None, [], {}, {"no": ["010"]}],
)  # fmt: skip
def test_what_is_written_is_read_as_the_same_value(value: Any) -> None:
    parsed = read(strict_yaml.dump({"a": value}))["a"]

    assert (parsed, type(parsed)) == (value, type(value))


def test_tables_and_programs_may_merge_keys_but_not_give_one_twice() -> None:
    first, second = strict_yaml.load_documents("x: &x {a: 1, b: 2}\ny: {<<: *x, a: 3}\n---\nday: 2026-11-28\n")
    assert (first["y"], second) == ({"a": 3, "b": 2}, {"day": "2026-11-28"})
    with pytest.raises(yaml.YAMLError, match="'a' is given twice"):
        strict_yaml.load_document("x: [{a: 1, a: 2}]")
