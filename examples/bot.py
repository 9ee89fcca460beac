"""A bot with one tool and a small window: the loop that every framework has, with two calls added.

Runs without arguments, keys or servers: it starts a server and a worker of its own, and a stand-in
plays the model. In your bot, `ask_model` is your provider's client.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from compactor import Compactor, ModelConfig
from compactor.embedded import EmbeddedServer, start_worker

SYSTEM = "You are a support engineer. Look into the logs before you answer."
TOOLS = [{"type": "function", "function": {"name": "read_log", "parameters": {"type": "object"}}}]


def read_log(host: str) -> str:
    """The bot's tool."""
    return "\n".join(f"2031-04-09 {host} request {n} took {n * 7 % 90} ms" for n in range(120))


def ask_model(messages: list[Any], turn: int) -> dict[str, Any]:
    """Stands in for client.chat.completions.create(model=..., messages=messages, tools=TOOLS)."""
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": f"host-{turn} looks healthy."}
    arguments = json.dumps({"host": f"host-{turn}"})
    call = {"id": f"call_{turn}", "type": "function", "function": {"name": "read_log", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def main() -> None:
    """Eight turns in a window that holds four."""
    with EmbeddedServer() as server, tempfile.TemporaryDirectory() as folder:
        worker = start_worker(env={"REDIS_URL": server.url}, log=Path(folder) / "worker.log")
        with Compactor(redis_url=server.url, broker_url=server.url) as memory:
            session = memory.session("acme/support-1", ModelConfig("gpt-4o", context_limit=16))
            for turn in range(8):
                session.push({"role": "user", "content": f"Is host-{turn} all right?"})
                while True:
                    context = session.prepare(tools=TOOLS, system=SYSTEM, wait=10, wait_for="swap")
                    reply = ask_model(context.messages, turn)
                    session.push(reply)
                    for call in reply.get("tool_calls", []):
                        host = json.loads(call["function"]["arguments"])["host"]
                        session.push({"role": "tool", "tool_call_id": call["id"], "content": read_log(host)})
                    if not reply.get("tool_calls"):
                        break
                print(f"turn {turn}: {context.verdict.percent} % full, {context.replaced} results shortened")
            for run in session.compactions():
                print(f"{run.outcome}: {run.before} -> {run.after} tokens, {run.items} results")
            print("the original of m2 begins:", session.recall("m2")["content"][:40])
        worker.stop()


if __name__ == "__main__":
    main()
