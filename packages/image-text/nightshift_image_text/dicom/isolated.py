"""JPEG lossless, JPEG-LS and JPEG of 12 bits by GDCM in a process of its own: some broken frames end or hang it.

A plugin of pydicom's decoders; the process starts with the first frame, and anew after it ended.
"""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from pydicom import uid
from pydicom.pixels.decoders.base import DecodeRunner, get_decoder

NAME = "gdcm-isolated"
DECODER_DEPENDENCIES = dict.fromkeys(
    (uid.JPEGExtended12Bit, uid.JPEGLossless, uid.JPEGLosslessSV1, uid.JPEGLSLossless, uid.JPEGLSNearLossless),
    ("python-gdcm>=3.2.6",),
)  # pydicom asks a plugin's module for this
SECONDS = 60.0  # for a frame
LENGTH = 8  # bytes of an answer's length, as in the server
SERVER = Path(__file__).with_name("gdcm_server.py")


def is_available(syntax: str) -> bool:
    """Return whether frames of a transfer syntax are decoded here."""
    return syntax in DECODER_DEPENDENCIES


def decode_frame(codestream: bytes, runner: DecodeRunner) -> bytes:
    """Return the samples of a frame, as pydicom asks its plugins.

    Raises:
        ValueError: when GDCM cannot decode it, ends, or takes too long.
    """
    bits_stored = runner.bits_stored
    if runner.transfer_syntax in uid.JPEGLSTransferSyntaxes:
        runner.set_option("planar_configuration", 0)
        bits_stored = runner.get_option("jls_precision", bits_stored)
        runner.set_option("bits_allocated", 8 if bits_stored <= 8 else 16)
    samples = runner.samples_per_pixel
    return _PROCESS.decode(
        codestream,
        {
            "syntax": str(runner.transfer_syntax),
            "photometric": str(runner.photometric_interpretation),
            "rows": runner.rows,
            "columns": runner.columns,
            "samples": samples,
            "planes": runner.planar_configuration if samples > 1 else 0,
            "bits_allocated": runner.bits_allocated,
            "bits_stored": bits_stored,
            "sign": runner.pixel_representation,
        },
    )


@dataclass
class DecoderProcess:
    """The process, started when it is needed."""

    _lock: Lock = field(default_factory=Lock)
    _process: "subprocess.Popen[bytes] | None" = None
    _owner: int = 0

    def decode(self, codestream: bytes, layout: Mapping[str, Any]) -> bytes:
        """Send a frame and return its samples.

        Raises:
            ValueError: when there are none.
        """
        with self._lock:
            process = self._start()
            timer = Timer(SECONDS, process.kill)
            timer.start()
            try:
                samples = _exchange(process, codestream, layout)
            except OSError:
                samples = None
            finally:
                timer.cancel()
            if samples is None:
                self.stop()
        if not samples:
            raise ValueError("GDCM cannot decode the frame")
        return samples

    def stop(self) -> None:
        """End the process."""
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
            self._process.communicate()
        self._process = None

    def _start(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._owner != os.getpid():
            self._owner = os.getpid()
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(SERVER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process


def _exchange(process: "subprocess.Popen[bytes]", codestream: bytes, layout: Mapping[str, Any]) -> bytes | None:
    """Return the answer to a frame, empty where it cannot be decoded; None where the process has ended."""
    if process.stdin is None or process.stdout is None:
        return None
    request = json.dumps({**layout, "length": len(codestream)}).encode()
    process.stdin.write(request + b"\n" + codestream)
    process.stdin.flush()
    length = process.stdout.read(LENGTH)
    samples = process.stdout.read(size := int.from_bytes(length))
    return samples if len(length) == LENGTH and len(samples) == size else None


_PROCESS = DecoderProcess()
atexit.register(_PROCESS.stop)

for _syntax in DECODER_DEPENDENCIES:
    get_decoder(_syntax).add_plugin(NAME, (__name__, "decode_frame"))
