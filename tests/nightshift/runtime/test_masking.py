"""Secrets leave no machine in a text."""

import string

from hypothesis import given
from hypothesis import strategies as st

from nightshift.runtime.masking import mask_secrets

PASSWORDS = st.text(string.ascii_letters + string.digits + "!$%^*-_.~", min_size=6, max_size=30)


@given(PASSWORDS, st.sampled_from(["postgresql", "https", "s3"]))
def test_the_login_of_a_url_is_masked(password: str, scheme: str) -> None:
    text = mask_secrets(f"{scheme}://user:{password}@db.example.com/risk refuses", {})

    assert text == f"{scheme}://***@db.example.com/risk refuses"


@given(PASSWORDS.filter(lambda text: text not in "the database refuses it"))
def test_the_value_of_a_secret_variable_is_masked_wherever_it_stands(password: str) -> None:
    text = mask_secrets(f"<{password}> refuses", {"NIGHTSHIFT_DATABASE_PASSWORD": password, "HOME": "refuses"})

    assert text == "<***> refuses"


def test_a_signed_url_loses_its_signature_and_keeps_the_rest() -> None:
    text = mask_secrets("https://x.example.com/a?version=3&X-Amz-Signature=abc&api_key=def#end", {})

    assert text == "https://x.example.com/a?version=3&X-Amz-Signature=***&api_key=***"


def test_short_values_and_other_variables_stay() -> None:
    assert mask_secrets("true /home/a", {"TOKENIZERS_PARALLELISM": "true", "HOME": "/home/a"}) == "true /home/a"
