"""FastAPI as its documentation shows it: a typed body, a function that answers."""

import os

import session
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

app, model = FastAPI(), session.load()


class ScoreRequest(BaseModel):
    inputs: list[list[float]]


@app.post("/predict")
async def predict(request: ScoreRequest) -> dict[str, list[float]]:
    return {"scores": session.score(model, request.inputs)}


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ["PORT"]), access_log=False)
