import numpy as np

from nightshift.models.tensors import by_name

PAIRS = np.zeros(2, [("pixels", np.uint8, (3, 3, 1)), ("tokens", np.int32, (4,))])


def test_a_structured_array_is_an_input_of_each_field():
    assert {name: values.shape for name, values in by_name(PAIRS).items()} == {"pixels": (2, 3, 3, 1), "tokens": (2, 4)}


def test_any_other_array_is_the_one_input():
    assert list(by_name(np.zeros((2, 5)))) == ["inputs"]


def test_inputs_by_name_stay_as_they_are():
    inputs = {"pixels": PAIRS["pixels"]}

    assert by_name(inputs) is inputs
