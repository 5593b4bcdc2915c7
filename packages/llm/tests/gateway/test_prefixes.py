"""The estimate of a replica's cache."""

from hypothesis import given
from hypothesis import strategies as st

from nightshift_llm.gateway.prefixes import BLOCK, MAX_BLOCKS, PrefixCache, hash_prefixes


def text(*letters: str) -> bytes:
    """A text of one block per letter."""
    return b"".join(letter.encode() * BLOCK for letter in letters)


def test_a_longer_conversation_begins_with_the_hashes_of_the_shorter_one() -> None:
    assert hash_prefixes(text(*"abcd"))[:2] == hash_prefixes(text(*"ab")) == hash_prefixes(text(*"ab") + b"part")
    assert hash_prefixes(text(*"xbcd"))[1:] != hash_prefixes(text(*"abcd"))[1:]
    assert hash_prefixes(b"short") == []


def test_a_prompt_is_looked_at_up_to_a_limit() -> None:
    assert len(hash_prefixes(b"x" * BLOCK * (MAX_BLOCKS + 5))) == MAX_BLOCKS


def test_the_cached_part_of_a_prompt_is_its_longest_known_prefix() -> None:
    cache = PrefixCache()
    cache.add(hash_prefixes(text(*"abc")))
    assert [cache.count_cached(hash_prefixes(text(*letters))) for letters in ("abcd", "abx", "bc", "")] == [3, 2, 0, 0]


def test_the_ends_of_the_prompts_that_were_used_longest_ago_are_dropped_first() -> None:
    cache = PrefixCache(capacity=4)
    cache.add(hash_prefixes(text(*"abc")))
    cache.add(hash_prefixes(text(*"xy")))
    assert cache.count_cached(hash_prefixes(text(*"abc"))) == cache.count_cached(hash_prefixes(text(*"xy"))) == 2


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=12), max_size=40))
def test_a_cache_stays_within_its_capacity_and_never_holds_a_block_without_those_before_it(prompts) -> None:
    cache = PrefixCache(capacity=12)
    for letters in prompts:
        hashes = hash_prefixes(text(*letters))
        cache.add(hashes)
        assert cache.count_cached(hashes) == len(hashes)
        assert len(cache) <= 12
    for letters in prompts:
        hashes = hash_prefixes(text(*letters))
        known = [cache.count_cached(hashes[: index + 1]) == index + 1 for index in range(len(hashes))]
        assert known == sorted(known, reverse=True)
