"""A gateway for language models: one OpenAI-compatible address in front of several replicas of an engine.

    python -m nightshift_llm.gateway --replica http://127.0.0.1:8001 --replica http://127.0.0.1:8002

Not a step. `application.py` has the routes, `routing.py` and `prefixes.py` choose a replica, `fleet.py` follows their
health, `completion_stream.py` reads streams; `budgets.py` admits requests within the budgets of keys, and `ledger.py`
stores the usage.
"""
