"""A Ray cluster for one command: it listens on this machine only, and answers only to those who know its token."""

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

LOOPBACK = "127.0.0.1"


def start(ray: Any, **options: Any) -> ExitStack:
    """Start Ray on this machine; closing what is returned stops it and leaves the environment as it was."""
    if not hasattr(import_module("ray._raylet"), "AuthenticationTokenLoader"):
        raise RuntimeError(f"expected a Ray that has tokens, got {ray.__version__}; install Ray 2.52 or newer")
    with ExitStack() as opened:
        opened.enter_context(_fresh_token())
        with _loopback_allowed():
            ray.init(address="local", _node_ip_address=LOOPBACK, include_dashboard=False, **options)
        opened.callback(ray.shutdown)
        address = ray.get_runtime_context().gcs_address
        if not address.startswith(f"{LOOPBACK}:"):
            raise RuntimeError(
                f"expected Ray {ray.__version__} to listen on {LOOPBACK}, got {address}; use Ray 2.52 to 2.60"
            )
        return opened.pop_all()


@contextmanager
def _fresh_token() -> Iterator[None]:
    """A token of which only this process and its children know, whatever the user's own clusters ask for."""
    wanted = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = {name: os.environ.get(name) for name in wanted}
    _set_environment(wanted)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: dict[str, str | None] | dict[str, str]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    # Ray keeps what it has read of both.
    raylet = import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _loopback_allowed() -> Iterator[None]:
    """On Linux Ray replaces 127.0.0.1 by an address that others can reach, unless clusters of machines are disabled.

    The variable RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER says so too, but is read only once, and holds for clusters joined later.
    """
    constants: Any = import_module("ray._private.ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
