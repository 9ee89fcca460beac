"""A process of another environment that does what peers do, once for each line it is told; it knows nothing of us.

Reads JSON lines: first {"redis_url", "namespace", "messages", "large", "most"}, then the name of a task;
answers each with {"seconds"} or {"error"}.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # litellm asks the network for prices when imported


class Peers:
    """Each task once; what it needs is made before the clock starts."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.loop = asyncio.new_event_loop()
        self.made: dict[str, Any] = {}

    def task(self, name: str) -> Callable[[], Any]:
        """What one line asks for, ready to be timed."""
        return getattr(self, f"_{name}")()  # type: ignore[no-any-return] # why: the tasks below are all alike

    def _kept(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    def _encoding(self) -> Any:
        return self._kept("encoding", lambda: import_module("tiktoken").get_encoding("o200k_base"))

    def _langchain(self) -> Any:
        convert = import_module("langchain_core.messages").convert_to_messages
        return self._kept("messages", lambda: convert(self.given["messages"]))

    def _tiktoken_recount(self) -> Callable[[], Any]:
        encode = self._encoding().encode_ordinary
        return lambda: sum(len(encode(message["content"])) + 4 for message in self.given["messages"])

    def _trim_messages(self) -> Callable[[], Any]:
        encode, messages = self._encoding().encode_ordinary, self._langchain()
        trim = import_module("langchain_core.messages").trim_messages

        def counter(rows: Any) -> int:
            return sum(len(encode(row.content)) + 4 for row in rows)

        return lambda: trim(messages, max_tokens=self.given["most"], token_counter=counter, strategy="last")

    def _count_tokens_approximately(self) -> Callable[[], Any]:
        count, messages = import_module("langchain_core.messages.utils").count_tokens_approximately, self._langchain()
        return lambda: count(messages)

    def _litellm_token_counter(self) -> Callable[[], Any]:
        count = import_module("litellm").token_counter
        return lambda: count(model="gpt-4o", messages=self.given["messages"])

    def _agents_push(self) -> Callable[[], Any]:
        session = self._kept("agents", self._agents)
        item = {"role": "user", "content": f"{time.time_ns()} {self.given['large']}"}
        return lambda: self.loop.run_until_complete(session.add_items([item]))

    def _agents(self) -> Any:
        made = import_module("agents.extensions.memory").RedisSession.from_url(
            f"{self.given['namespace']}-agents", url=self.given["redis_url"], key_prefix=self.given["namespace"]
        )
        self.loop.run_until_complete(made.add_items([{"role": "user", "content": "hi"}]))
        return made

    def _langchain_redis_push(self) -> Callable[[], Any]:
        history = self._kept("history", lambda: self._history("push"))
        message = import_module("langchain_core.messages").HumanMessage(f"{time.time_ns()} {self.given['large']}")
        return lambda: history.add_message(message)

    def _langchain_redis_messages(self) -> Callable[[], Any]:
        def make() -> Any:
            made = self._history("read")
            made.add_messages(self._langchain())
            return made

        history = self._kept("read", make)
        return lambda: history.messages

    def _history(self, name: str) -> Any:
        return import_module("langchain_redis").RedisChatMessageHistory(
            f"{self.given['namespace']}-{name}",
            redis_url=self.given["redis_url"],
            key_prefix=f"{self.given['namespace']}:",
            index_name=self.given["namespace"],
        )


def answer(peers: Peers, name: str) -> dict[str, Any]:
    """How long a task took, or why it cannot be done here."""
    try:
        work = peers.task(name)
        started = time.perf_counter()
        work()
        return {"seconds": time.perf_counter() - started}
    except Exception as error:  # noqa: BLE001 # why: a peer that does not run here is told as such
        return {"error": f"{type(error).__name__}: {str(error)[:200]}"}


def main() -> None:
    """Works until its input ends."""
    out, sys.stdout = sys.stdout, sys.stderr  # peers print
    peers = Peers(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        print(json.dumps(answer(peers, line.strip())), file=out, flush=True)


if __name__ == "__main__":
    main()
