"""Load test: how many requests a second a server of the champion takes within a limit of latency, and how to start it.

Reads the champion's package. Starts `nightshift.serving` on 127.0.0.1 with each of a few settings, sends requests in
a closed loop (each connection sends the next one after its response) and in an open one (due at random times).
Writes `verdict.json`, then `loadtest.json`, and the best settings to `<registry>/endpoint/<name>/settings.json`, with
which the deployment starts the local endpoint.

A latency counts from when a request was due, not from when it was sent: a client that waits for a slow server before
it sends the next request leaves out the time that this one would have waited (Gil Tene's coordinated omission).
"""
