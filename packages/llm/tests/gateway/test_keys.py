"""The file of API keys."""

import hashlib

import pytest

from nightshift.runtime.errors import UserError
from nightshift_llm.gateway.budgets import UNLIMITED, Amount
from nightshift_llm.gateway.keys import find_key, parse_keys

SHA256 = hashlib.sha256(b"secret").hexdigest()


def test_a_key_is_known_by_its_hash_and_never_by_the_hash_as_a_key() -> None:
    keys = parse_keys("keys", f"- {{name: a, sha256: {SHA256}, tokens_per_day: 5}}".encode())
    key = find_key(keys, b"Bearer secret")
    assert (key.name, key.limits.per_day, key.limits.requests_per_minute) == ("a", Amount(5, UNLIMITED), None)
    for header in (b"", b"secret", b"Basic secret", b"Bearer Secret", f"Bearer {SHA256}".encode()):
        assert find_key(keys, header) is None


def test_a_budget_in_dollars_is_kept_in_nanodollars() -> None:
    keys = parse_keys("keys", f"- {{name: a, sha256: {SHA256}, dollars_per_day: 0.29}}".encode())
    assert keys[SHA256].limits.per_day == Amount(UNLIMITED, 290_000_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"- {{name: a, sha256: {SHA256}, tokens: 5}}", "unknown field `tokens`"),
        (f"- {{name: a, sha256: {SHA256}, tokens_per_day: 0}}", r"Expected `int` >= 1 - at `\$\[0\].tokens_per_day`"),
        ("- {name: a, sha256: secret}", r"matching regex .* at `\$\[0\].sha256`"),
        ("key: [", "see packages/llm/docs/gateway.md"),
        ("- 2024-13-45", "see packages/llm/docs/gateway.md"),
        (f"- {{name: a, sha256: {SHA256}}}\n- {{name: a, sha256: {'a' * 64}}}", "name 'a' is there twice"),
        (f"- {{name: a, sha256: {SHA256}}}\n- {{name: b, sha256: {SHA256}}}", "sha256 '2bb8.*' is there twice"),
    ],
)
def test_a_wrong_file_is_refused_by_its_field(text, message) -> None:
    with pytest.raises(UserError, match=message):
        parse_keys("keys", text.encode())
