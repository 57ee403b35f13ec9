"""Asks the server before a load is put on it, so that a wrong address, key or name costs one line and not a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec

from baton.core.errors import ServingError
from baton.services.loadgen.answers import read_error
from baton.services.loadgen.client import cause_of, tls_context
from baton.services.loadgen.target import Address, Target, address_of, headers_of

NO_SUCH_ROUTE = (404, 405, 501)
SHOWN_NAMES = 8


class TargetRefused(ServingError):
    """The server cannot be measured with these settings; one line says why."""


class Model(msgspec.Struct):
    id: str


class ModelList(msgspec.Struct):
    data: list[Model]


async def check_target(target: Target) -> Target:
    """Asks for the list of models; the target with the only model's name, where none was given. A server without such
    a list is asked nothing more. Raises TargetInvalid and TargetRefused."""
    address = address_of(target.url)
    status, body = await get(target, address, f"{address.origin}/v1/models")
    if status in (401, 403):
        raise TargetRefused(f"{target.url} refuses the API key: {status} {read_error(body)}")
    if status in NO_SUCH_ROUTE and target.model:
        return target
    if status != 200:
        raise TargetRefused(f"{target.url} is not ready: /v1/models gives {status} {read_error(body)}")
    try:
        names = [model.id for model in msgspec.json.decode(body, type=ModelList).data]
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TargetRefused(f"{target.url} does not speak OpenAI's API: /v1/models: {error}") from error
    return named(target, names)


def named(target: Target, names: Sequence[str]) -> Target:
    """The target with a model that the server has. Raises TargetRefused."""
    shown = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
    if target.model in names:
        return target
    if target.model:
        raise TargetRefused(f"{target.url} has no model {target.model!r}; it has {shown or 'none'}")
    if len(names) != 1:
        raise TargetRefused(f"{target.url} has {len(names)} models, of which one must be named: {shown or 'none'}")
    return msgspec.structs.replace(target, model=names[0])


async def get(target: Target, address: Address, url: str) -> tuple[int, bytes]:
    """Status and body. Raises TargetRefused, and TargetInvalid for headers that cannot be sent."""
    headers = headers_of(target) | {"Accept": "application/json"}
    tls: Any = tls_context(target) if address.is_tls else True
    timeout = aiohttp.ClientTimeout(total=target.connect_timeout_s)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, headers=headers, ssl=tls) as response,
        ):
            return response.status, await response.read()
    except TimeoutError as error:
        raise TargetRefused(f"{target.url} does not answer within {target.connect_timeout_s:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise TargetRefused(f"{target.url} cannot be reached: {cause_of_http(error)}") from error


def cause_of_http(error: aiohttp.ClientError | OSError) -> str:
    """In the system's words where no connection was made: the library's own show its objects."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return cause_of(error.os_error)
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{error.status} {error.message}"
    return str(error) or type(error).__name__
