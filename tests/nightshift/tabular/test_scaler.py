"""Standardization."""

import numpy as np

from nightshift.tabular.scaler import Scaler


def test_columns_get_mean_zero_and_deviation_one():
    matrix = np.random.default_rng(0).normal(50, 7, size=(1000, 2)).astype(np.float32)

    scaled = Scaler.fit(matrix).apply(matrix)

    assert scaled.dtype == np.float32
    assert np.allclose(scaled.mean(axis=0, dtype=float), 0, atol=1e-5)
    assert np.allclose(scaled.std(axis=0, dtype=float), 1, atol=1e-5)


def test_a_constant_column_counts_nothing_even_where_it_changes():
    matrix = np.full((10, 1), 3.25, dtype=np.float32)

    assert Scaler.fit(matrix).apply(np.append(matrix, [[-1000]], axis=0)).tolist() == [[0.0]] * 11


def test_many_large_values_are_averaged_without_losing_precision():
    # summed in float32, ones on top of 2**24 would vanish
    matrix = np.full((3_000_000, 2), 1e5, dtype=np.float32)
    matrix[::2] += 1

    scaler = Scaler.fit(matrix)

    assert abs(float(scaler.mean[0]) - 100_000.5) < 0.01
    assert abs(float(scaler.scale[0]) - 0.5) < 0.001


def test_a_spread_too_small_for_float32_does_not_blow_up_what_comes_later():
    matrix = np.array([[1e-45], [0], [0], [0], [0], [0], [0]], dtype=np.float32)

    assert np.abs(Scaler.fit(matrix).apply(matrix + np.float32(0.1))).max() < 1


def test_a_missing_number_counts_as_the_mean_of_those_that_are_there():
    matrix = np.array([[1, np.nan], [3, np.nan], [np.nan, np.nan]], dtype=np.float32)

    scaler = Scaler.fit(matrix, imputes=True)

    assert scaler.apply(matrix).tolist() == [[-1, 0], [1, 0], [0, 0]]
    assert scaler.apply(np.array([[5, 7]], dtype=np.float32)).tolist() == [[3, 0]]


def test_where_nothing_is_missing_imputing_changes_nothing():
    matrix = np.random.default_rng(0).normal(50, 7, size=(1000, 2)).astype(np.float32)

    assert np.allclose(Scaler.fit(matrix, imputes=True).apply(matrix), Scaler.fit(matrix).apply(matrix), atol=1e-6)
