"""Public fakes for tests of programs that use Compactor: a model over real HTTP, a network that fails."""

from compactor.testing.lossy_proxy import LossyProxy, script_mark
from compactor.testing.model_server import Answer, ModelServer, completion, summary

__all__ = ["Answer", "LossyProxy", "ModelServer", "completion", "script_mark", "summary"]
