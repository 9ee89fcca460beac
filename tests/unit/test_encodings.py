"""Token encoders: the shipped vocabularies are tiktoken's own, checked at load, and no model name breaks the count."""

from __future__ import annotations

import ast
import gzip
import hashlib
import inspect
import warnings
from pathlib import Path
from typing import Any

import pytest
import tiktoken_ext.openai_public
from hypothesis import given
from hypothesis import strategies as st

from compactor import encodings
from compactor.encodings import PATTERNS, SHA256, encoder, encoding_name, vocabulary
from compactor.exceptions import VocabularyError
from compactor.records import ENCODINGS


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_shipped_vocabulary_has_the_published_sum(name: str) -> None:
    assert hashlib.sha256(vocabulary(name)).hexdigest() == SHA256[name]


def test_the_sums_are_those_that_tiktoken_checks() -> None:
    source = inspect.getsource(tiktoken_ext.openai_public)
    assert all(digest in source for digest in SHA256.values())


def _tiktokens_pattern(name: str) -> str:
    """The pattern in tiktoken's own definition, read without its download of the ranks."""
    tree = ast.parse(inspect.getsource(getattr(tiktoken_ext.openai_public, name)))
    (returned,) = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    assigned = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert isinstance(returned, ast.Dict)
    (value,) = [
        value
        for key, value in zip(returned.keys, returned.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "pat_str"
    ]
    expression = assigned[value.id] if isinstance(value, ast.Name) else value
    code = compile(ast.Expression(expression), "pattern", "eval")
    pattern: str = eval(code, dict(vars(tiktoken_ext.openai_public)))
    return pattern


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_patterns_equal_tiktokens_own(name: str) -> None:
    assert PATTERNS[name] == _tiktokens_pattern(name)


@pytest.mark.parametrize(
    ("name", "text", "tokens"),
    [
        ("cl100k_base", "hello world", 2),
        ("o200k_base", "hello world", 2),
        ("cl100k_base", "<|endoftext|>", 7),
        ("o200k_base", "<|endoftext|>", 7),
        ("o200k_base", "", 0),
        ("cl100k_base", "tiktoken is great!", 6),
    ],
)
def test_known_counts(name: str, text: str, tokens: int) -> None:
    assert encoder(name)(text) == tokens


@given(st.text(st.characters(exclude_categories=()), max_size=60), st.sampled_from(ENCODINGS))
def test_any_text_is_counted_surrogates_included(text: str, name: str) -> None:
    count = encoder(name)(text)
    assert (count > 0) is bool(text)
    assert count <= 3 * len(text.encode("utf-8", "surrogatepass"))


def _vocabulary_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def files(_package: str) -> Path:
        return path

    monkeypatch.setattr(encodings, "files", files)
    monkeypatch.setattr(encodings, "_loaded", {})


DAMAGED = {
    "empty": b"",
    "not gzip": b"plain",
    "cut off": gzip.compress(b"IQ== 0\n" * 500)[:-12],
    "flipped": gzip.compress(b"IQ== 0\n" * 500)[:20] + b"\xff" + gzip.compress(b"IQ== 0\n" * 500)[21:],
    "another file": gzip.compress(b"IQ== 0\n"),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_vocabulary_is_named_with_what_to_do(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "o200k_base.tiktoken.gz").write_bytes(data)
    _vocabulary_file(tmp_path, monkeypatch)
    with pytest.raises(VocabularyError, match="vocabulary o200k_base: missing or damaged") as caught:
        encoder("o200k_base")
    assert "Install the package again" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_a_missing_vocabulary_is_named_and_can_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _vocabulary_file(tmp_path, monkeypatch)
    with pytest.raises(VocabularyError, match="missing or damaged"):
        encoder("cl100k_base")
    monkeypatch.undo()
    assert encoder("cl100k_base")("hello") == 1


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k_base"),
        ("GPT-4o", "o200k_base"),
        (" gpt-4o ", "o200k_base"),
        ("openai/gpt-4o", "o200k_base"),
        ("openrouter/openai/gpt-4o-mini", "o200k_base"),
        ("OpenAI/GPT-4", "cl100k_base"),
        ("gpt-4o-2024-08-06", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("gpt-35-turbo", "cl100k_base"),
        ("gpt-5-mini", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("o1", "o200k_base"),
        ("gpt-4.1-mini", "o200k_base"),
        ("gpt-oss-120b", "o200k_base"),
        ("ft:gpt-4o:acme", "o200k_base"),
        ("text-embedding-3-small", "cl100k_base"),
    ],
)
def test_models_that_tiktoken_knows_need_no_warning(model: str, encoding: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encoding_name(model) == encoding


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4", "my-own-model"])
def test_a_configured_encoding_wins_without_a_warning(model: str, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encoding_name(model, name) == name


@pytest.mark.parametrize(
    "model",
    ["deepseek-chat", "qwen3.8:27b", "claude-sonnet-4-5", "my-deployment", "", "/", "text-davinci-003", "gpt2", "模型"],
)
def test_any_other_model_is_counted_with_o200k_under_one_warning(model: str) -> None:
    encoding_name.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [encoding_name(model) for _ in range(3)] == ["o200k_base"] * 3
    assert len(caught) == 1
    assert "ModelConfig(encoding=...)" in str(caught[0].message)


@given(st.text(max_size=20))
def test_no_model_name_breaks_the_count(model: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert encoding_name(model) in ENCODINGS


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_loaded_encoder_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder(name)

    def never(_package: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(encodings, "files", never)
    assert encoder(name)("hello") == 1
