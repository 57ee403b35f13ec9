"""Every route of the application."""

from __future__ import annotations

import msgspec

from baton.services.router.api.answers import ChatChunk, ChatCompletion, Completion
from baton.services.router.api.bodies import ChatBody, CompletionBody
from baton.services.router.api.handlers import CHAT, COMPLETIONS, Generation
from baton.services.router.api.responses_answers import Response
from baton.services.router.api.responses_bodies import ResponsesBody
from baton.services.router.api.responses_endpoint import RESPONSES
from baton.services.router.api.responses_events import AnyEvent
from baton.services.router.api.tokenizing import DetokenizeBody, Text, TokenizeBody, Tokenizing, Tokens
from baton.services.router.config import HttpConfig
from baton.services.router.front_end import FrontEnd
from baton.services.router.http.builtin_page import page_routes
from baton.services.router.http.cached import CachedAnswer
from baton.services.router.http.openapi.document import openapi_document
from baton.services.router.http.pages import (
    Health,
    Model,
    ModelList,
    Models,
    Providers,
    Readiness,
    health_page,
    metrics_page,
    readiness_page,
)
from baton.services.router.http.routes import Route

OF_GENERATION = (422, 504)  #: a grammar that cannot be compiled; the request's time


def all_routes(front: FrontEnd, config: HttpConfig, providers: Providers, has_keys: bool) -> tuple[Route, ...]:
    """The table; the document is made of all of it, its own row included."""

    def document() -> bytes:
        return msgspec.json.encode(openapi_document(routes, config, front.model.info.vocab_size, has_keys))

    generation = Generation(front, config)
    own = CachedAnswer(document, "application/json", {"Cache-Control": "private, max-age=60"})
    described = Route(
        method="GET",
        path="/openapi.json",
        handler=own.answer,
        name="openapi",
        summary="This document.",
        answer="application/json",
        cached=own,
    )
    routes = (
        *generating_routes(generation),
        *token_routes(Tokenizing(front, generation, config)),
        *model_routes(Models(config, front)),
        *probe_routes(providers),
        described,
        *page_routes(),
    )
    return routes


def generating_routes(generation: Generation) -> tuple[Route, ...]:
    return (
        Route(
            method="POST",
            path="/v1/completions",
            handler=generation.handler(COMPLETIONS),
            name="createCompletion",
            summary="Continues one prompt or several.",
            body=CompletionBody,
            answer=Completion,
            event=Completion,
            errors=OF_GENERATION,
        ),
        Route(
            method="POST",
            path="/v1/chat/completions",
            handler=generation.handler(CHAT),
            name="createChatCompletion",
            summary="Answers a conversation.",
            body=ChatBody,
            answer=ChatCompletion,
            event=ChatChunk,
            errors=OF_GENERATION,
        ),
        Route(
            method="POST",
            path="/v1/responses",
            handler=generation.handler(RESPONSES),
            name="createResponse",
            summary="Answers a conversation, in items.",
            body=ResponsesBody,
            answer=Response,
            event=AnyEvent,
            ends_with_done=False,
            errors=OF_GENERATION,
        ),
    )


def token_routes(tokenizing: Tokenizing) -> tuple[Route, ...]:
    return (
        Route(
            method="POST",
            path="/tokenize",
            handler=tokenizing.tokenize,
            name="tokenize",
            summary="The tokens that a prompt would have.",
            body=TokenizeBody,
            answer=Tokens,
        ),
        Route(
            method="POST",
            path="/detokenize",
            handler=tokenizing.detokenize,
            name="detokenize",
            summary="The text of tokens.",
            body=DetokenizeBody,
            answer=Text,
        ),
    )


def model_routes(models: Models) -> tuple[Route, ...]:
    return (
        Route(
            method="GET",
            path="/v1/models",
            handler=models.list_all,
            name="listModels",
            summary="The model under each of its names.",
            answer=ModelList,
        ),
        Route(
            method="GET",
            path="/v1/models/{name}",
            handler=models.retrieve,
            name="retrieveModel",
            summary="The model under one of its names.",
            answer=Model,
            errors=(404,),
        ),
    )


def probe_routes(providers: Providers) -> tuple[Route, ...]:
    return (
        Route(
            method="GET",
            path="/health",
            handler=health_page(providers.health),
            name="health",
            summary="Whether the process works.",
            answer=Health,
            not_ready=Health,
        ),
        Route(
            method="GET",
            path="/ready",
            handler=readiness_page(providers.readiness),
            name="ready",
            summary="Whether a request would be served now.",
            answer=Readiness,
            not_ready=Readiness,
        ),
        Route(
            method="GET",
            path="/metrics",
            handler=metrics_page(providers.metrics),
            name="metrics",
            summary="Metrics in the text format of Prometheus.",
            answer="text/plain",
        ),
    )
