"""Decodes frames by GDCM; the process of `isolated.py`, which imports nothing else so that it starts at once."""

import json
import os
import sys
from collections.abc import Mapping
from typing import IO, Any

import gdcm

LENGTH = 8  # bytes of an answer's length


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Decode frames until there are no more: a line of JSON and a codestream each, answered by length and samples."""
    for line in iter(requests.readline, b""):
        layout = json.loads(line)
        try:
            samples = _decode(requests.read(layout["length"]), layout)
        except Exception:  # whatever a broken frame does
            samples = b""
        answers.write(len(samples).to_bytes(LENGTH) + samples)
        answers.flush()


def _decode(codestream: bytes, layout: Mapping[str, Any]) -> bytes:
    fragment, fragments = gdcm.Fragment(), gdcm.SequenceOfFragments.New()
    fragment.SetByteStringValue(codestream)
    fragments.AddFragment(fragment)
    element = gdcm.DataElement(gdcm.Tag(0x7FE0, 0x0010))
    element.SetValue(fragments.__ref__())
    image = gdcm.Image()
    image.SetNumberOfDimensions(2)
    image.SetDimensions((layout["columns"], layout["rows"], 1))
    image.SetDataElement(element)
    image.SetPhotometricInterpretation(
        gdcm.PhotometricInterpretation(gdcm.PhotometricInterpretation.GetPIType(layout["photometric"]))
    )
    image.SetPlanarConfiguration(layout["planes"])
    image.SetTransferSyntax(gdcm.TransferSyntax(gdcm.TransferSyntax.GetTSType(layout["syntax"])))
    stored = layout["bits_stored"]
    depth = layout["bits_allocated"], stored, stored - 1, layout["sign"]
    image.SetPixelFormat(gdcm.PixelFormat(layout["samples"], *depth))
    buffer: str = image.GetBuffer()  # bytes in a text, as SWIG returns them
    return buffer.encode("utf-8", "surrogateescape")


if __name__ == "__main__":
    # GDCM prints to the output that answers go to
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)
        serve(sys.stdin.buffer, output)
