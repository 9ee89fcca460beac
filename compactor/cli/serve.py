"""`compactor serve`: the HTTP service."""

from __future__ import annotations

import gc
import importlib.util
import ipaddress
import logging
import socket
import warnings
from typing import Annotated, Final

import typer
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, stderr, stdout
from compactor.cli.stopping import StopFlag
from compactor.exceptions import ConfigurationError
from compactor.settings import read_settings

HTTP_PORT: Final = 8080
COLLECT_AT: Final = 50_000  # live new objects; a long list has thousands, and each look at them costs CPU for nothing
_GRACE: Final = 30  # seconds that requests under way have at a stop; more than the longest `wait`


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; loopback unless you say otherwise.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, metavar="PORT", help="Port to listen on.")] = HTTP_PORT,
    json: Json = False,
) -> None:
    """Serves sessions and stored configs over HTTP, for bots in any language, until Ctrl-C or SIGTERM.

    Callers need a key: `compactor keys create TENANT`. Requests under way at a stop may end first.
    Addresses and limits: docs/http.md.
    """
    require_http()
    import uvicorn

    from compactor.http.app import create_app

    service = create_app(read_settings())
    if not is_loopback(host):
        stderr.print(
            Text.assemble(
                ("warning ", "bold yellow"),
                f"listening on {host}: keys and conversations travel unencrypted. Put a proxy with TLS in front.",
            ),
            soft_wrap=True,
        )
    log_to_stderr()
    # Callers name models by the thousand, and Python keeps every text that it warned with.
    warnings.filterwarnings("ignore", message="model .* tiktoken does not know its encoding")
    gc.collect()
    gc.freeze()  # what was loaded stays: collections look at what requests made alone
    gc.set_threshold(COLLECT_AT)
    config = uvicorn.Config(
        service,
        host=host,
        port=port,
        access_log=False,  # the service writes its own, without addresses
        log_config=None,
        server_header=False,
        proxy_headers=False,
        http="h11",  # the other one takes heads of any size, and what follows a body as headers
        ws="none",
        timeout_graceful_shutdown=_GRACE,
    )
    with _listening(host, port) as listening, StopFlag().listening():
        url = _url(host, port)
        print_json({"ready": True, "http_url": url}) if json else stdout.print(Text(f"ready: {url}; Ctrl-C stops"))
        # uvicorn sends itself the signal again when it is done; the flag takes it.
        uvicorn.Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises ConfigurationError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2_048)
    except OSError as error:
        raise ConfigurationError(
            f"http port {port}: cannot listen on {host} ({error.strerror}). Choose another --port or --host."
        ) from None


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def require_http() -> None:
    """Raises ConfigurationError when the extra is not installed."""
    if not has_http():
        raise ConfigurationError("http: is not installed. pip install 'compactor[http]'.")


def has_http() -> bool:
    """Whether the packages of the extra `http` are there."""
    names = ("fastapi", "uvicorn", "pyrate_limiter", "cryptography")
    return all(importlib.util.find_spec(name) is not None for name in names)


def is_loopback(host: str) -> bool:
    """Whether an address reaches this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def log_to_stderr() -> None:
    """What the service and its server say, one line each; requests by their route's pattern."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("compactor", "uvicorn"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
