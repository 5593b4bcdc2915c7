"""The pipelines, a file each: `define` gives that of a site."""
