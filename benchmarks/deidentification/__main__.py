"""What is left of planted identifiers in headers, reports and pixels, beside plain Presidio, `deid` and `dicognito`.

Every study is made up from its seed, the study's number. Words that were burned in are read before and after by
another reader, tesseract, which Debian's package tesseract-ocr brings.

    python -m benchmarks.deidentification headers --studies 5000 --minutes 10
    python -m benchmarks.deidentification texts --studies 5000 --minutes 10
    python -m benchmarks.deidentification pixels --studies 5000 --minutes 40
"""

import argparse
import json
from collections import Counter

from benchmarks import figures
from benchmarks.deidentification import headers, pixels, texts


def main() -> None:
    """Measure one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["headers", "texts", "pixels"])
    parser.add_argument("--studies", type=int, default=200, help="how many to make up (default: %(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=60, help="after which no other study is begun (default: %(default)s)"
    )
    parser.add_argument("--processes", type=int, default=2, help="that read pixels (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.part == "pixels":
        _measure_pixels(arguments.studies, arguments.processes, arguments.minutes)
    else:
        part = {"headers": headers, "texts": texts}[arguments.part]
        rows = part.measure(arguments.studies, arguments.minutes)
        figures.publish(f"deidentification-{arguments.part}", rows)


def _measure_pixels(studies: int, processes: int, minutes: float) -> None:
    counts: Counter[str] = Counter()
    for chunk in pixels.measure(studies, processes, minutes):
        counts += chunk
        print(json.dumps(counts), flush=True)
    pixels.publish(counts, studies)


if __name__ == "__main__":
    main()
