"""The planner beside servers that others have measured."""

from benchmarks.serving_plans import spread
from nightshift_perf.planning.serving.published import read_accuracy, read_points

POINTS = read_points()


def test_servers_that_were_fitted_are_met_within_10_percent_and_most_within_20() -> None:
    middle, tail = spread(point.error for point in POINTS)

    assert middle < 0.1
    assert tail < 0.2


def test_mlperfs_llama_is_neither_a_quarter_too_low_nor_too_high() -> None:
    errors = [point.error for point in POINTS if point.publisher == "MLPerf"]

    assert len(errors) == 2 and all(abs(error) < 0.15 for error in errors)


def test_every_publisher_was_left_out_of_a_fit_once_with_all_its_points() -> None:
    stated = read_accuracy()
    counts = {
        publisher: sum(point.publisher == publisher for point in POINTS) for publisher in ("TensorRT-LLM", "MLPerf")
    }

    assert {name: stated[name].points for name in counts} == counts
    assert stated["all"].points == sum(row.points for name, row in stated.items() if name != "all")


def test_the_stated_error_is_not_smaller_than_that_of_the_fit() -> None:
    middle, tail = spread(point.error for point in POINTS)

    assert read_accuracy()["TensorRT-LLM"].median > middle
    assert read_accuracy()["TensorRT-LLM"].tail > tail
