"""Load on a server that streams tokens: what is sent when, the client, and what its records say."""
