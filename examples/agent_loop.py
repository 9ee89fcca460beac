"""An agent's loop that cannot run away: a guard ends it, results are limited, a long turn stays inside the window.

What was shortened is not gone: the model has a tool with which it fetches an original again.

Runs without arguments, keys or servers: it starts a server and a worker of its own, and a stand-in
answers the OpenAI SDK over HTTP. In your bot, the client is your provider's.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openai import OpenAI

from compactor import Compactor, ModelConfig, Session
from compactor.agent_loop import LoopGuard, Stop
from compactor.embedded import EmbeddedServer, start_worker
from compactor.encodings import encoder
from compactor.testing import Answer, ModelServer, completion
from compactor.tokens import count_messages

STEPS = 200
NAMED = r"originals?: (m\d+)"  # how a note names what it stands for
SYSTEM = "You are a support engineer. Look into the logs before you answer."
TOOLS: list[Any] = [{"type": "function", "function": {"name": "read_log", "parameters": {"type": "object"}}}]


def read_log(host: int) -> str:
    """The bot's tool; now and then it returns far too much."""
    lines = 900 if host % 50 == 49 else 16
    return "\n".join(f"2031-04-09 host-{host} request {n} took {n * 7 % 90} ms" for n in range(lines))


def run_agent(client: OpenAI, session: Session, question: str, guard: LoopGuard, sent: list[int]) -> str | Stop:
    """The loop: a prepare before every model call, a guard before every tool call, a limit on every result."""
    recall = session.recall_tool()
    tools = [*TOOLS, recall.schema]
    session.push({"role": "user", "content": question})
    while True:
        context = session.prepare(tools=tools, system=SYSTEM, wait=5)
        sent.append(context.verdict.sent)
        reply = client.chat.completions.create(model="gpt-4o", messages=context.messages, tools=tools)
        message = reply.choices[0].message
        receipt = session.push(message)
        if stop := guard.step(message, usage=reply.usage):
            session.push(stop.messages)
            return stop
        if not message.tool_calls:
            return message.content or ""
        refused = {refusal["tool_call_id"]: refusal for refusal in receipt.not_run}  # they copy marks of left-out text
        for call in message.tool_calls:
            assert call.type == "function"
            if call.id in refused:
                session.push(refused[call.id])
                continue
            if call.function.name == recall.name:
                result = recall.handler(call.function.arguments)
            else:
                result = read_log(**json.loads(call.function.arguments))
            session.push({"role": "tool", "tool_call_id": call.id, "content": result}, limit_result=8_000)


def calling(host: int, number: int) -> Answer:
    """A model's reply that asks for one log."""
    function = {"name": "read_log", "arguments": json.dumps({"host": host})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return completion(None, finish_reason="tool_calls", tool_calls=[call])


def runaway() -> Callable[[dict[str, Any]], Answer]:
    """A model that asks for the same log for ever."""
    return lambda request: calling(7, len(request["messages"]))


def diligent() -> Callable[[dict[str, Any]], Answer]:
    """A model that reads one log after the other, then answers."""
    numbers = iter(range(STEPS))

    def answer(_request: dict[str, Any]) -> Answer:
        number = next(numbers, None)
        return completion("All hosts look healthy.") if number is None else calling(number, number)

    return answer


def forgetful() -> Callable[[dict[str, Any]], Answer]:
    """A model that looks up what was shortened, by the id in the note, and answers from the original."""

    def answer(request: dict[str, Any]) -> Answer:
        messages: list[Any] = request["messages"]
        if messages[-1]["role"] == "tool":
            line = next(line for line in messages[-1]["content"].splitlines() if "request 13" in line)
            return completion(f"As the log says: {line[line.index('host') :]}.")
        note = next(m["content"] for m in messages if m["role"] == "tool" and re.search(NAMED, m["content"]))
        wanted = re.findall(NAMED, note)[0]
        function = {"name": "recall_original", "arguments": json.dumps({"id": wanted, "find": "request 13"})}
        call = {"id": "call_recall", "type": "function", "function": function}
        return completion(None, finish_reason="tool_calls", tool_calls=[call])

    return answer


def main() -> None:
    """A runaway that is stopped, a turn of 200 tool steps in a window of 32,000 tokens, a question about its start."""
    with EmbeddedServer() as server, ModelServer(runaway()) as model, tempfile.TemporaryDirectory() as folder:
        worker = start_worker(env={"REDIS_URL": server.url}, log=Path(folder) / "worker.log")
        client = OpenAI(base_url=model.url, api_key="none-needed", max_retries=0)
        with client, Compactor(redis_url=server.url, broker_url=server.url) as memory:
            config = ModelConfig("gpt-4o", context_limit=32)
            looping = memory.session("acme/runaway", config)
            stop = run_agent(client, looping, "Is host-7 all right?", LoopGuard(), [])
            assert isinstance(stop, Stop)
            print(f"runaway: {stop.notice} after {stop.steps} steps; reason {stop.reason}")

            model.answer = diligent()
            session = memory.session("acme/long-turn", config)
            guard = LoopGuard(max_iterations=STEPS, max_tokens=10_000_000)
            sent: list[int] = []
            reply = run_agent(client, session, "Are all hosts all right?", guard, sent)
            print(f"long turn: {reply!r} after {guard.steps} steps; no send was larger than {max(sent)} tokens")
            show(session)

            model.answer = forgetful()
            print("recalled by the model:", run_agent(client, session, "How long took request 13?", LoopGuard(), []))
        worker.stop()


def show(session: Session) -> None:
    """What became of the memory."""
    last = session.prepare().messages[-2]["content"]  # the newest results stay as they were pushed
    whole = session.recall(f"m{2 * STEPS}")["content"]
    print(f"limited: {last.splitlines()[-1]}; recalled whole: {whole == read_log(STEPS - 1)}, {len(whole)} characters")
    runs = [run for run in session.compactions() if run.items]
    print(f"compacted {len(runs)} times inside the turn; first {runs[0].before} -> {runs[0].after} tokens")
    pushed = count_messages(session.originals(), encoder("o200k_base"))
    verdict = session.estimate(tools=TOOLS, system=SYSTEM)
    print(f"pushed {pushed} tokens, kept {verdict.total}: {verdict.percent} % of the window")


if __name__ == "__main__":
    main()
