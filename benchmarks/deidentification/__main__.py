"""What is left of planted identifiers in headers, reports and pixels, beside plain Presidio, `deid` and `dicognito`.

Every study is made up from its seed, the study's number. Words that were burned in are read before and after by
another reader, tesseract, which Debian's package tesseract-ocr brings.

    python -m benchmarks.deidentification pixels --studies 5000 --minutes 40
"""

import argparse
import json
from collections import Counter

from benchmarks.deidentification import pixels


def main() -> None:
    """Measure one part, or what a run that was cut short has written down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["pixels"])
    parser.add_argument("--studies", type=int, default=200, help="how many to make up (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="after which pixels end (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="beside each other (default: %(default)s)")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    for chunk in pixels.measure(arguments.studies, arguments.processes, arguments.minutes):
        counts += chunk
        print(json.dumps(counts), flush=True)
    pixels.publish(counts, arguments.studies)


if __name__ == "__main__":
    main()
