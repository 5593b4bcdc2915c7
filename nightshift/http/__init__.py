"""HTTP/1.1 for the model server, the gateway and the load tests, without a framework: messages, parser, transport."""
