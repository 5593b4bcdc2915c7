"""What a cluster runs beside the pipelines: the table of charts, their values, and the namespaces they live in."""
