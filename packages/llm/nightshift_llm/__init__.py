"""Language models as files: converted to GGUF, quantized, judged, served and put under load; none is trained here."""
