"""What protects an agent's loop: a guard that ends it, and results of a bounded length; what a bot imports."""

from compactor.agent_loop.loop_guard import LoopGuard, Stop, StopReason
from compactor.agent_loop.spending import Prices, Usage
from compactor.agent_loop.tool_results import LimitPolicy, limit_tool_result

__all__ = ["LimitPolicy", "LoopGuard", "Prices", "Stop", "StopReason", "Usage", "limit_tool_result"]
