"""The table of prices: names as users write them, own prices first, sizes of prompts, and no network."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from compactor.exceptions import ConfigurationError
from compactor.price_table import PriceTable
from compactor.settings import read_settings

SAME = {
    "gpt-4o": ["GPT-4o", "openai/gpt-4o", " gpt-4o", "litellm_proxy/gpt-4o", "azure/gpt-4o", "gpt-4o-2024-08-06"],
    "claude-sonnet-4-5": ["anthropic/claude-sonnet-4-5", "Anthropic/Claude-Sonnet-4-5"],
    "deepseek-chat": ["deepseek/deepseek-chat"],
    "gemini-2.5-flash": ["gemini/gemini-2.5-flash", "models/gemini-2.5-flash", "google/gemini-2.5-flash"],
}
UNKNOWN = ["my-own-model", "ollama/gpt-4o", "vllm/deepseek-chat", "gpt-4o-mini-my-finetune", "", " ", "/", "openai/"]


@pytest.fixture(scope="module")
def table() -> PriceTable:
    return PriceTable(read_settings())


@pytest.mark.parametrize(("model", "written"), [(name, other) for name, others in SAME.items() for other in others])
def test_a_model_has_one_price_however_its_name_is_written(table: PriceTable, model: str, written: str) -> None:
    known = table(model)
    assert known is not None
    assert table(written) == known
    assert known.cache_read < known.input <= known.cache_write


@pytest.mark.parametrize("model", UNKNOWN)
def test_a_model_or_a_host_that_nobody_knows_has_no_price(table: PriceTable, model: str) -> None:
    assert table(model) is None


def test_a_prompt_beyond_a_tier_costs_more(table: PriceTable) -> None:
    small, large = table("claude-sonnet-4-5", 200_000), table("claude-sonnet-4-5", 200_001)
    assert small is not None
    assert large is not None
    assert (large.input, large.cache_read) == (2 * small.input, 2 * small.cache_read)


def test_own_prices_go_before_the_table_and_name_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(
        "\ufeff" + json.dumps({"gpt-4o": {"input": 9, "output": 9}, "ollama/llama3": {"input": 0, "output": 0}})
    )
    table = PriceTable(read_settings(prices_file=file))
    for written in ("gpt-4o", "openai/GPT-4o"):
        found = table(written)
        assert found is not None
        assert found.input == 9
    local = table("ollama/llama3")
    assert local is not None
    assert local.input == 0, "an operator may say that a model costs nothing"
    assert table("llama3") is None


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xff", b"{}"])
def test_a_file_that_cannot_be_read_is_told_at_the_start(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "prices.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"prices_file: .*JSON"):
        PriceTable(read_settings(prices_file=file))


def test_without_its_package_and_without_a_network_prices_are_unknown() -> None:
    code = """
import socket, sys
def refuse(*_): raise SystemExit("the network was touched")
socket.socket.connect = socket.getaddrinfo = refuse
from compactor.price_table import PriceTable
from compactor.settings import read_settings
table = PriceTable(read_settings())
assert "genai_prices" not in sys.modules, "loaded before anybody asked"
print(table("gpt-4o") is not None)
import compactor.price_table as page
page._snapshot.cache_clear(); page._listed.cache_clear()
for name in list(sys.modules):
    if name.startswith("genai_prices"):
        sys.modules[name] = None
print(table("gpt-4o"), table("gpt-4o-mini"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout.split() == ["True", "None", "None"], done.stderr
    assert done.stderr.count("the table is not installed") == 1
