"""Commands of the config store: each touches one slot of a cluster, and takes no garbled answer for a config."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.commands import configs
from compactor.commands.command import Command
from compactor.commands.configs import Place, Written
from compactor.exceptions import ConfigDamagedError, ConfigNotFoundError, ConfigsFullError, ConfigVersionError

ID = "cfg_" + "0" * 32
PLACE = Place("ns", "acme", "u1", ID)
WRITTEN = Written(b"{}", is_default=False)
COMMANDS: dict[str, Command[Any]] = {
    "write": configs.write(PLACE, WRITTEN, operation="op", expected=None, most=10),
    "delete": configs.delete(PLACE, operation="op", expected=1),
    "read": configs.read(PLACE),
    "read_with_key": configs.read_with_key(PLACE),
    "read_all": configs.read_all("ns", "acme", "u1"),
    "read_default": configs.read_default("ns", "acme", "u1"),
    "find": configs.find("ns", "acme", None, ID),
    "bind": configs.bind("ns", "acme", "chat-42", "u1", ID, life_ms=1),
    "bound": configs.bound("ns", "acme", "chat-42", life_ms=1),
    "unbind": configs.unbind("ns", "acme", "chat-42"),
    "read_sealed": configs.read_sealed("ns", "acme", 0),
    "read_one_sealed": configs.read_one_sealed("ns", "acme", ID),
    "reseal": configs.reseal("ns", "acme", ID, b"old", b"new"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_key_of_an_operation_is_in_the_tenants_slot(name: str) -> None:
    command = COMMANDS[name]
    keys = [*command.keys, *(str(read[1]) for read in command.reads)]
    assert keys
    assert all(key.startswith("{ns:configs:acme}:") for key in keys)


@pytest.mark.parametrize("name", ["write", "delete", "bind"])
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ([b"missing"], ConfigNotFoundError), ([b"stale", 7], ConfigVersionError),
        ([b"full", b"user"], ConfigsFullError), ([b"full", b"tenant"], ConfigsFullError),
        ([b"damaged"], ConfigDamagedError),
    ],
)  # fmt: skip
def test_what_a_script_refuses_is_a_typed_error(name: str, reply: list[Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        COMMANDS[name].parse([reply])


def test_a_stale_version_names_the_current_one() -> None:
    with pytest.raises(ConfigVersionError) as caught:
        COMMANDS["write"].parse([[b"stale", 7]])
    assert caught.value.current == 7


def test_tenants_are_read_out_of_the_names_of_keys() -> None:
    cursor, tenants = configs.read_tenants("ns", 0).parse([[b"0", [b"{ns:configs:acme:x}:sealed"]]])
    assert (cursor, tenants) == (0, ["acme:x"])
