"""What the trace of a training on GPUs says: where its time goes, and what would win most of it back.

Pure but for the readers: `read.py` opens a file as a `Trace` (`kineto.py`, `nsight.py`) or as metrics of single kernels
(`compute.py`), `analysis.py` turns traces into a `TraceProfile`, and `section.py` shows it. Times are microseconds
since the start of the trace, float64, until they are written as milliseconds.
"""
