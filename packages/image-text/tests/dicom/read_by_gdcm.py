"""Read DICOM files by GDCM alone, each in a process of its own, since it ends on some: `read_by_gdcm.py OUT FILE ...`.

Writes `OUT/<number>.npy`, samples as they are stored: gray (frames, rows, columns), color (frames, rows, columns, 3).
"""

import os
import sys
from pathlib import Path

import gdcm
import numpy as np

SCALARS = {
    gdcm.PixelFormat.UINT8: "u1",
    gdcm.PixelFormat.INT8: "i1",
    gdcm.PixelFormat.UINT16: "<u2",
    gdcm.PixelFormat.INT16: "<i2",
    gdcm.PixelFormat.UINT32: "<u4",
    gdcm.PixelFormat.INT32: "<i4",
}


def read(path):
    reader = gdcm.ImageReader()
    reader.SetFileName(path)
    if not reader.Read():
        return None
    image = reader.GetImage()
    if image.GetPixelFormat().GetSamplesPerPixel() == 3 and image.GetPlanarConfiguration():
        change = gdcm.ImageChangePlanarConfiguration()
        change.SetInput(image)
        change.SetPlanarConfiguration(0)
        if not change.Change():
            return None
        image = change.GetOutput()
    pixels, sizes = image.GetPixelFormat(), [image.GetDimension(axis) for axis in range(image.GetNumberOfDimensions())]
    scalar = SCALARS.get(pixels.GetScalarType())
    if scalar is None:  # a bit a sample
        return None
    samples = np.frombuffer(image.GetBuffer().encode("utf-8", "surrogateescape"), scalar)
    shape = [*(sizes[2:] or [1]), sizes[1], sizes[0]]
    return samples.reshape([*shape, 3] if pixels.GetSamplesPerPixel() == 3 else shape)


folder = Path(sys.argv[1])
for number, file in enumerate(sys.argv[2:]):
    if os.fork():
        os.wait()
        continue
    samples = read(file)
    if samples is not None:
        np.save(folder / f"{number}.npy", samples)
    os._exit(0)
