"""The config of the document on stored configs, and the api_key in it."""

from __future__ import annotations

from typing import Any

SECRET = "sk-live-Zq8vT3nB6mK1xR5w"
DOCUMENTED: dict[str, Any] = {
    "name": "GPT-4o Configuration",
    "model_type": "text",
    "is_default": True,
    "provider": "openai",
    "base_url": "https://api.openai.com/v1",
    "model": "gpt-4o",
    "temperature": 0.7,
    "api_key": SECRET,
    "context_limit": 128,
    "context_strategy": "balanced",
}
