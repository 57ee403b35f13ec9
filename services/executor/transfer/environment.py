"""The transport library reads its settings from the environment, once: this sets them before it is loaded."""

from __future__ import annotations

import os
import sys

from baton.core.errors import InvariantViolated

LOOPBACK_DEVICE = "lo"
LOCAL_TRANSPORTS = "tcp,sm,self,cuda"  #: what is not there is left out


def configure_transport_environment(loopback: bool) -> None:
    """Choose what the transports may use; call it before anything imports NIXL.

    `loopback`: nothing may listen beyond this machine. By default UCX listens on every interface, so the device is
    forced; which transports run on it stays the operator's choice (`UCX_TLS`).
    """
    if any(name.partition("_")[0] == "nixl" for name in sys.modules):
        raise InvariantViolated("the transport's environment is set before NIXL is imported")
    os.environ.setdefault("NIXL_LOG_LEVEL", "WARN")
    os.environ.setdefault("UCX_LOG_LEVEL", "error")
    if loopback:
        os.environ["UCX_NET_DEVICES"] = LOOPBACK_DEVICE
        os.environ.setdefault("UCX_TLS", LOCAL_TRANSPORTS)
