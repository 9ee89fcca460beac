"""The proxy that loses replies, under the name that the tests of this folder use."""

from compactor.testing import LossyProxy, script_mark

__all__ = ["LossyProxy", "script_mark"]
