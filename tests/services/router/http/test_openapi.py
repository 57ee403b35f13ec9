"""The document of the API: every route is in it, and its ranges are those that are checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from jsonschema import Draft202012Validator

from baton.services.router.api.ranges import bound as shown
from baton.services.router.errors import ApiError, ErrorAnswer
from baton.services.router.http.app import create_app
from baton.services.router.http.auth import OPEN_ROUTES, ApiKeys
from baton.services.router.http.key_file import parse_keys
from baton.services.router.http.openapi.statuses import ERRORS
from baton.services.router.http.pages import Providers
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import LIMITS, Rig, open_rig

KEYS = ApiKeys(parse_keys("sk-0123456789abcdef", "test", 9), bytes(16))
HELD = {"Authorization": "Bearer sk-0123456789abcdef"}
#: what a body needs besides the field that is looked at
NEEDED: dict[str, dict[str, Any]] = {
    "CompletionBody": {"model": "tiny", "prompt": "hello"},
    "ChatBody": {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]},
    "ResponsesBody": {"model": "tiny", "input": "hello"},
}
#: and what a field needs beside it
BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("CompletionBody", "max_tokens"): {"echo": True},
    ("CompletionBody", "min_tokens"): {"max_tokens": 2**31 - 1},
    ("ChatBody", "min_tokens"): {"max_tokens": 2**31 - 1},
    ("ChatBody", "top_logprobs"): {"logprobs": True},
    ("ResponsesBody", "top_logprobs"): {"include": ["message.output_text.logprobs"]},
}
LEFT_OUT = ("messages", "tools", "prompt", "input", "best_of")  #: have fields inside, or follow another field
PATHS = {"CompletionBody": "/v1/completions", "ChatBody": "/v1/chat/completions", "ResponsesBody": "/v1/responses"}
STEP = {"minimum": -1, "maximum": 1, "minItems": -1, "maxItems": 1, "minLength": -1, "maxLength": 1}  #: to outside
INSIDE = 0.001  #: of an exclusive minimum of 0


async def document_of(rig: Rig, **headers: str) -> dict[str, Any]:
    async with rig.http.get(rig.url + "/openapi.json", headers=headers) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        return await answer.json()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


async def test_every_route_of_the_application_is_in_it(rig: Rig) -> None:
    async def health() -> bool:
        return True

    app = create_app(rig.front, rig.front.config, Providers(health, str, bytes))
    registered = {(route.resource.canonical, route.method.lower()) for route in app.router.routes()}
    document = await document_of(rig)
    described = {(path, method) for path, method, _ in operations(document)}
    assert described == {(path, method) for path, method in registered if method != "head"}
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)


async def test_all_that_it_refers_to_is_there_and_its_schemas_are_schemas(rig: Rig) -> None:
    document = await document_of(rig)
    for reference in references(document):
        place = document
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
    for name, schema in document["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert "." not in name  # two structs of one name would be told apart by their modules
        assert schema["title"] == name


async def test_examples_are_valid_and_are_answered(rig: Rig) -> None:
    document = await document_of(rig)
    num_examples = 0
    for path, _, operation in operations(document):
        content = operation.get("requestBody", {"content": {"application/json": {}}})["content"]["application/json"]
        for example in content.get("examples", {}).values():
            schema = {**content["schema"], "components": document["components"]}
            Draft202012Validator(schema).validate(example["value"])
            async with rig.http.post(rig.url + path, json=example["value"]) as answer:
                await answer.read()
                assert answer.status == 200, (path, example)
            num_examples += 1
    assert num_examples >= 9


async def test_with_keys_it_says_which_routes_need_one_and_needs_one_itself(model: RouterModel) -> None:
    async with open_rig(model, KEYS, stop_grace_s=0.5) as rig:
        async with rig.http.get(rig.url + "/openapi.json") as answer:
            assert answer.status == 401
        document = await document_of(rig, **HELD)
        assert document["security"] == [{"key": []}]
        for path, _, operation in operations(document):
            assert ("401" in operation["responses"]) == (path not in OPEN_ROUTES) == ("security" not in operation), path


async def test_errors_have_one_shape_a_meaning_and_their_headers(rig: Rig) -> None:
    document = await document_of(rig)
    assert "security" not in document
    responses = document["components"]["responses"]
    assert {int(name.removeprefix("Error")) for name in responses} == set(ERRORS)
    for response in responses.values():
        assert response["description"]
        assert response["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/ErrorAnswer"}
    assert [name for name, response in responses.items() if "Retry-After" in response["headers"]] == [
        "Error429", "Error503",
    ]  # fmt: skip


async def test_it_is_sent_once_to_who_keeps_it(rig: Rig) -> None:
    url = rig.url + "/openapi.json"
    async with rig.http.get(url) as answer:
        etag = answer.headers["ETag"]
        assert answer.headers["Cache-Control"] == "private, max-age=60"
    for known in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        async with rig.http.get(url, headers={"If-None-Match": known}) as answer:
            assert (answer.status, answer.headers["ETag"], await answer.read()) == (304, etag, b"")
    async with rig.http.get(url, headers={"If-None-Match": '"other"'}) as answer:
        assert answer.status == 200


async def test_a_method_that_a_route_does_not_have_is_told_those_that_it_has(rig: Rig) -> None:
    for path, method, _ in operations(await document_of(rig)):
        async with rig.http.put(rig.url + path.replace("{name}", "tiny"), json={}) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (405, "method_not_allowed")
            assert method.upper() in answer.headers["Allow"].split(",")


class Bound(NamedTuple):
    """Of a field: its keyword, and a value on each side."""

    keyword: str
    inside: Any
    outside: Any
    told: str = ""  #: what the refusal says of it


def bounds(schema: dict[str, Any]) -> Iterator[Bound]:
    """Those of each branch, and of what is inside lists and objects."""
    for branch in schema.get("anyOf", [schema]):
        if "exclusiveMinimum" in branch:
            yield Bound("exclusiveMinimum", INSIDE, 0, "greater than 0")
        for keyword in STEP.keys() & branch.keys():
            number = branch[keyword]
            if number > 0 or keyword in ("minimum", "maximum", "maxLength"):
                told = f" {shown(number)}" if keyword in ("minimum", "maximum") else ""
                outside = sized(branch, keyword, number + STEP[keyword])
                yield Bound(keyword, sized(branch, keyword, number), outside, told)
        if branch.get("type") == "array":
            yield from (one._replace(inside=[one.inside], outside=[one.outside]) for one in bounds(branch["items"]))
        if isinstance(inner := branch.get("additionalProperties"), dict):
            yield from (one._replace(inside={"1": one.inside}, outside={"1": one.outside}) for one in bounds(inner))


def sized(schema: dict[str, Any], keyword: str, number: float) -> Any:
    if keyword.endswith("Length"):
        return "x" * int(number)
    if keyword.endswith("Items"):
        is_number = schema["items"].get("type") == "integer"
        return [0 if is_number else f"x{index}" for index in range(int(number))]
    return number


@pytest.mark.parametrize("name", PATHS)
async def test_each_bound_is_the_one_that_is_checked(rig: Rig, name: str) -> None:
    async def refused(field: str, value: Any) -> dict[str, Any]:
        """The error of a refusal that is not for the model's context."""
        body = NEEDED[name] | BESIDE.get((name, field), {}) | {field: value}
        async with rig.http.post(rig.url + PATHS[name], json=body) as answer:
            if answer.status == 200:
                await answer.read()
                return {}
            error = (await answer.json())["error"]
        return {} if error["code"] == "context_length_exceeded" else error

    document = await document_of(rig)
    num_bounds = 0
    for field, schema in document["components"]["schemas"][name]["properties"].items():
        for bound in bounds(schema) if field not in LEFT_OUT else ():
            assert await refused(field, bound.inside) == {}, (field, bound)
            error = await refused(field, bound.outside)
            assert error["param"].startswith(field), (field, bound)
            assert bound.told in error["message"], (error, bound)
            num_bounds += 1
    assert num_bounds >= 15


def schemas_within(schema: dict[str, Any], document: dict[str, Any], seen: set[str]) -> Iterator[dict[str, Any]]:
    """It and all that it is made of."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in seen:
            return
        seen.add(name)
        schema = document["components"]["schemas"][name]
    yield schema
    inner = [*schema.get("anyOf", []), *schema.get("properties", {}).values(), schema.get("items")]
    for one in [*inner, schema.get("additionalProperties")]:
        if isinstance(one, dict):
            yield from schemas_within(one, document, seen)


async def test_every_number_of_a_body_has_both_its_bounds_and_every_item_a_type(rig: Rig) -> None:
    document = await document_of(rig)
    num_numbers = 0
    for path, _, operation in operations(document):
        if "requestBody" not in operation:
            continue
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        for schema in schemas_within(body, document, set()):
            assert schema, path
            if schema.get("type") in ("integer", "number"):
                num_numbers += 1
                assert {"minimum", "exclusiveMinimum"} & schema.keys(), (path, schema)
                assert "maximum" in schema, (path, schema)
    assert num_numbers >= 40


async def test_only_streams_that_end_with_done_speak_of_it(rig: Rig) -> None:
    spoken = {path: "[DONE]" in str(operation) for path, _, operation in operations(await document_of(rig))}
    assert {path for path, speaks in spoken.items() if speaks} == {"/v1/completions", "/v1/chat/completions"}


async def test_the_calls_of_a_message_have_the_bound_that_is_checked(rig: Rig) -> None:
    schema = (await document_of(rig))["components"]["schemas"]["ChatMessage"]["properties"]["tool_calls"]
    (bound,) = [branch["maxItems"] for branch in schema["anyOf"] if branch["type"] == "array"]
    for num_calls, status in ((bound, 200), (bound + 1, 400)):
        calls = [
            {"id": str(index), "type": "function", "function": {"name": "f", "arguments": ""}}
            for index in range(num_calls)
        ]
        rig.front.limits = msgspec.structs.replace(LIMITS, max_prompt_len=1 << 20, max_model_len=1 << 21)
        found, answer = await rig.chat(messages=[{"role": "assistant", "tool_calls": calls}])
        assert found == status, answer
    assert answer["error"]["param"] == "messages[0].tool_calls"


def test_what_is_written_is_encoded_from_the_types_that_are_shown() -> None:
    error = msgspec.json.decode(ApiError(429, "m", code="c").body(), type=ErrorAnswer, strict=True)
    assert (error.error.message, error.error.code, error.error.param) == ("m", "c", None)
