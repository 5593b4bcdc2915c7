"""Named features to a model's input, and scores to predictions."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.contracts.package import DecisionRule, PredictionInterval
from nightshift.contracts.preprocessing import Inputs
from nightshift.http.errors import RequestError
from nightshift.serving.feature_encoder import LARGEST, FeatureEncoder
from nightshift.serving.protocols.features import predictions
from nightshift.tabular import inputs

INPUTS = Inputs(numeric=["amount", "count"], categorical={"channel": ["shop", "web"]})
GOOD = {"amount": 1.5, "count": 2, "channel": "web"}


def test_a_category_is_the_one_of_training_whatever_white_space_is_around_it():
    inputs = Inputs(numeric=[], categorical={"channel": ["", "caf\u00e9"]})
    texts = ["\u00a0cafe\u0301\u200b", "\u00a0", "tea"]
    rows = FeatureEncoder(inputs, max_rows=9).encode({"instances": [{"channel": text} for text in texts]})
    assert rows.tolist() == [[0, 1], [1, 0], [0, 0]]


def test_a_category_that_training_never_saw_is_scored():
    assert FeatureEncoder(INPUTS, 1000).encode({"instances": [GOOD | {"channel": "phone"}]}).tolist() == [
        [1.5, 2.0, 0.0, 0.0]
    ]


def test_features_may_come_in_any_order():
    matrix = FeatureEncoder(INPUTS, 1000).encode({"instances": [GOOD, {"channel": "shop", "count": 0, "amount": -1}]})
    assert matrix.tolist() == [[1.5, 2.0, 0.0, 1.0], [-1.0, 0.0, 1.0, 0.0]]


def test_null_is_a_missing_number_of_a_nullable_input():
    encoder = FeatureEncoder(INPUTS.model_copy(update={"nullable": ["count"]}), 1000)

    (row,) = encoder.encode({"instances": [GOOD | {"count": None}]})

    assert np.isnan(row).tolist() == [False, True, False, False]
    with pytest.raises(RequestError, match=r"instances\[0\]\.count is x; allowed: .* or null"):
        encoder.encode({"instances": [GOOD | {"count": "x"}]})


NUMBERS = st.floats(-LARGEST, LARGEST) | st.integers(-(10**30), 10**30)
INSTANCES = st.fixed_dictionaries(
    {"amount": NUMBERS, "count": NUMBERS, "channel": st.sampled_from(["shop", "web", "phone", ""]) | st.text()}
)


@given(st.lists(INSTANCES, min_size=1, max_size=5))
def test_a_requests_rows_are_those_of_its_frame_to_the_bit(instances):
    frame = pd.DataFrame(instances, columns=INPUTS.columns).astype({"amount": float, "count": float})

    encoded = FeatureEncoder(INPUTS, 1000).encode({"instances": instances})

    assert (encoded.dtype, encoded.tobytes()) == (np.float32, inputs.matrix(INPUTS, frame).tobytes())


FINITE = "a finite number within the range of float32"


@pytest.mark.parametrize(
    ("request_", "field", "value", "allowed"),
    [
        ([], "body", "[]", 'an object {"instances": [...]}'),
        ({}, "body", "{}", 'an object {"instances": [...]}'),
        ({"instances": [GOOD], "more": 1}, "body", "'more': 1", 'an object {"instances": [...]}'),
        ({"instances": GOOD}, "instances", "'amount': 1.5", "a list of 1 to 1000 objects"),
        ({"instances": []}, "instances", "a list of 0", "a list of 1 to 1000 objects"),
        ({"instances": [GOOD] * 1001}, "instances", "a list of 1001", "a list of 1 to 1000 objects"),
        ({"instances": [GOOD, [1, 2]]}, "instances[1]", "[1, 2]", "an object with amount, count, channel"),
        (
            {"instances": [{"amount": 1.5, "channel": "web"}]},
            "instances[0].count",
            "missing",
            "all of amount, count, channel",
        ),
        (
            {"instances": [GOOD | {"amuont": 1}]},
            "instances[0].amuont",
            "1",
            "only amount, count, channel; did you mean 'amount'?",
        ),
        ({"instances": [GOOD | {"amount": "12"}]}, "instances[0].amount", "12", FINITE),
        ({"instances": [GOOD | {"amount": None}]}, "instances[0].amount", "None", FINITE),
        ({"instances": [GOOD | {"amount": True}]}, "instances[0].amount", "True", FINITE),
        ({"instances": [GOOD | {"amount": [1]}]}, "instances[0].amount", "[1]", FINITE),
        ({"instances": [GOOD | {"amount": math.nan}]}, "instances[0].amount", "nan", FINITE),
        ({"instances": [GOOD | {"amount": -math.inf}]}, "instances[0].amount", "-inf", FINITE),
        ({"instances": [GOOD | {"amount": 1e39}]}, "instances[0].amount", "1e+39", FINITE),
        ({"instances": [GOOD | {"amount": 10**400}]}, "instances[0].amount", "1000", FINITE),
        ({"instances": [GOOD | {"channel": 3}]}, "instances[0].channel", "3", "a text"),
    ],
)
def test_a_wrong_request_is_told_the_field_the_value_and_what_is_allowed(request_, field, value, allowed):
    with pytest.raises(RequestError) as caught:
        FeatureEncoder(INPUTS, 1000).encode(request_)
    assert caught.value.field == field
    assert value in caught.value.value
    assert caught.value.allowed == allowed
    assert len(caught.value.value) < 300


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "instances", "x"]), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*GOOD, "x"]), JSON_VALUES) | JSON_VALUES)
def test_whatever_is_sent_is_a_finite_row_or_is_refused_in_valid_utf8(instance):
    try:
        encoded = FeatureEncoder(INPUTS, 1000).encode({"instances": [instance]})
    except RequestError as error:
        assert json.dumps([error.field, error.value, error.allowed], ensure_ascii=False).encode()
    else:
        assert np.isfinite(encoded).all()


def test_a_lone_surrogate_is_shown_escaped():
    with pytest.raises(RequestError) as caught:
        FeatureEncoder(INPUTS, 1000).encode({"instances": [GOOD | {"amount": "\ud800"}]})
    assert caught.value.value == "\\ud800"


def test_a_score_from_the_threshold_on_is_flagged():
    scores = np.array([0.25, 0.5, 0.75], dtype=np.float32)
    assert predictions(scores, DecisionRule(threshold=0.5), 3) == [
        {"score": 0.25, "flagged": False, "version": 3},
        {"score": 0.5, "flagged": True, "version": 3},
        {"score": 0.75, "flagged": True, "version": 3},
    ]


def test_a_score_that_is_a_number_has_the_ends_of_its_interval() -> None:
    interval = PredictionInterval(coverage=0.9, edges=[10.0], below=[-1.0, -4.0], above=[2.0, 8.0])
    rule = DecisionRule(threshold=None, interval=interval)
    assert predictions(np.array([5.0, 20.0], dtype=np.float32), rule, 3) == [
        {"score": 5.0, "low": 4.0, "high": 7.0, "version": 3},
        {"score": 20.0, "low": 16.0, "high": 28.0, "version": 3},
    ]


def test_of_classes_the_highest_score_has_the_label():
    scores = np.array([[0.25, 0.75], [0.5, 0.5]], dtype=np.float32)

    first, tied = predictions(scores, DecisionRule(threshold=None), 3, ["no", "yes"])

    assert first == {"label": "yes", "score": 0.75, "scores": {"no": 0.25, "yes": 0.75}, "version": 3}
    assert tied["label"] == "no"
