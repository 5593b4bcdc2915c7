"""FastAPI as its documentation shows it: a typed body, a function that answers."""

import os

import session
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

app, model = FastAPI(), session.load()


class Rows(BaseModel):
    inputs: list[list[float]]


@app.post("/predict")
async def predict(rows: Rows) -> dict[str, list[float]]:
    return {"scores": session.score(model, rows.inputs)}


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ["PORT"]), access_log=False)
