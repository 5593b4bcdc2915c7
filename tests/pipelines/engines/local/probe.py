"""A step for tests: `python -m ...probe <what> ...`, with a child of its own where it waits."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    what, *words = sys.argv[1:]
    print(json.dumps({"arguments": words, "colour": os.environ.get("COLOUR"), "home": "HOME" in os.environ}))
    print("and on stderr", file=sys.stderr, flush=True)
    if what == "exit":
        sys.exit(int(words[0]))
    if what == "say":
        sys.exit("the last word")
    if what == "raise":
        raise ValueError("of no use")
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "imported":
        print(*(library for library in words if library in sys.modules))
    if what == "fill":
        print(len(bytearray(int(words[0]))))
    if what == "wait":
        child = subprocess.Popen(["sleep", "600"])
        Path(words[0]).write_text(f"{os.getpid()} {child.pid} {os.getppid()}")
        child.wait()
