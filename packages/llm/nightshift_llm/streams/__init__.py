"""The load test of a streaming server: workload, client and summary."""
