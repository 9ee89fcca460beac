"""An agent that keeps its own list, in LangChain messages: one call prepares what goes to the model.

Runs without arguments, keys or servers; needs the extra `langchain`. A stand-in plays the model. In your
graph the marked call takes the place of `[SystemMessage(prompt)] + context_messages + state["messages"]`.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from compactor.context import prepare_context_messages

PROMPT = (
    "You look after a network lab. Look at the devices before you answer.\n\n### CURRENT TOPOLOGY\n{{topology_info}}"
)
LLM_CONFIG: dict[str, Any] = {"model": "gpt-4o", "context_limit": 8, "context_strategy": "balanced"}  # K tokens


@tool
def show_interfaces(device: str) -> str:
    """Shows the interfaces of a device, their addresses and counters."""
    return "\n".join(f"{device} Gi0/{n} 10.{n}.0.1/30 up, {n * 7919} packets in, {n * 104729} out" for n in range(40))


def ask_model(messages: list[BaseMessage], turn: int) -> AIMessage:
    """Stands in for llm.bind_tools(tools).invoke(messages)."""
    if isinstance(messages[-1], ToolMessage):
        return AIMessage(f"R{turn} is up on all interfaces.")
    call: dict[str, Any] = {"name": "show_interfaces", "args": {"device": f"R{turn}"}, "id": f"call_{turn}"}
    return AIMessage("", tool_calls=[call])


def main() -> None:
    """Ten turns in a window that holds four."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s", stream=sys.stdout)
    state: dict[str, list[BaseMessage]] = {"messages": []}
    topology_context = "R0 -- R1 -- R2 -- R3 -- R4 -- R5 -- R6 -- R7 -- R8 -- R9"
    for turn in range(10):
        state["messages"].append(HumanMessage(f"Is R{turn} all right?"))
        while True:
            full_messages = prepare_context_messages(  # <- this call
                state_messages=state["messages"],
                system_prompt=PROMPT,
                topology_context=topology_context,
                model_name=LLM_CONFIG["model"],
                llm_config=LLM_CONFIG,
                tools=[show_interfaces],
            )
            assert isinstance(full_messages[0], SystemMessage)
            reply = ask_model(full_messages, turn)
            state["messages"].append(reply)
            if not reply.tool_calls:
                break
            state["messages"] += [show_interfaces.invoke(call) for call in reply.tool_calls]
        print(f"turn {turn}: {len(state['messages'])} messages kept, {len(full_messages)} sent; {reply.content}")


if __name__ == "__main__":
    main()
