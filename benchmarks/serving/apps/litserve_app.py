"""LitServe as its documentation shows it."""

import os

import litserve
import session


class LitServeScorer(litserve.LitAPI):
    def setup(self, device):
        self.model = session.load()

    def decode_request(self, request):
        return request["inputs"]

    def predict(self, rows):
        return session.score(self.model, rows)

    def encode_response(self, scores):
        return {"scores": scores}


if __name__ == "__main__":
    server = litserve.LitServer(LitServeScorer(), accelerator="cpu")
    server.run(host="127.0.0.1", port=int(os.environ["PORT"]), generate_client_file=False, log_level="warning")
