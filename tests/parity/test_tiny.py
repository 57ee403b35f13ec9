"""X8: the tiny model through HTTP: every token is exactly the float64 reference's, however it was computed."""

from __future__ import annotations

from tests.parity.live import LiveStack
from tests.parity.tiny import check_drawn, check_exact, questions
from tests.support.reference import Reference

#: around blocks of 16, steps of 64 tokens and several of each
LENGTHS = (1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 79, 80, 81, 127, 128, 129, 191, 192, 193, 300)
LONG_ANSWER = 20  #: crosses a block's border while decoding, whatever the prompt


def test_x8_h11_every_length_around_a_border_is_exact_cold_and_warm(
    tiny_stack: LiveStack, tiny_reference: Reference
) -> None:
    for question in questions(LENGTHS, 1):
        cold, warm = tiny_stack.ask(question)[0], tiny_stack.ask(question)[0]
        assert cold.num_cached_tokens == 0
        length = len(question.prompt)
        assert warm.num_cached_tokens == min(length // 16 * 16, length - 1)
        check_exact(tiny_reference, question, cold)
        assert (warm.tokens, warm.logprobs) == (cold.tokens, cold.logprobs)


def test_x8_prompts_that_share_a_part_of_their_blocks_are_exact(
    tiny_stack: LiveStack, tiny_reference: Reference
) -> None:
    whole = questions((200,), 2)[0]
    tiny_stack.ask(whole)
    for kept in (15, 16, 17, 64, 65, 192):
        for tail in questions((1, 16, 70), kept):
            question = whole._replace(prompt=whole.prompt[:kept] + tail.prompt)
            check_exact(tiny_reference, question, tiny_stack.ask(question)[0])


def test_x8_sixteen_at_once_are_exact(tiny_stack: LiveStack, tiny_reference: Reference) -> None:
    asked = [question._replace(max_tokens=LONG_ANSWER) for question in questions(LENGTHS[:16], 3)]
    for question, answer in zip(asked, tiny_stack.ask(*asked), strict=True):
        check_exact(tiny_reference, question, answer)
    again = [question._replace(prompt=question.prompt[::-1]) for question in asked]
    for question, answer in zip(again, tiny_stack.ask(*again), strict=True):
        check_exact(tiny_reference, question, answer)


def test_x8_a_prompt_under_another_salt_is_computed_again_and_exact(
    tiny_stack: LiveStack, tiny_reference: Reference
) -> None:
    question = questions((100,), 4)[0]
    for salt in ("", "one", "other"):
        salted = question._replace(salt=salt)
        answer = tiny_stack.ask(salted)[0]
        assert answer.num_cached_tokens == 0
        check_exact(tiny_reference, salted, answer)


def test_x8_g7_the_same_keyed_draw_on_the_references_logits_gives_every_sampled_token(
    tiny_stack: LiveStack, tiny_reference: Reference
) -> None:
    shapes = ((1.0, 0, 1.0), (0.7, 0, 0.9), (1.3, 40, 1.0), (0.8, 20, 0.95))
    asked = [
        question._replace(temperature=temperature, top_k=top_k, top_p=top_p, seed=1000 + length, num_choices=3)
        for temperature, top_k, top_p in shapes
        for length, question in zip((17, 64), questions((17, 64), 5), strict=True)
    ]
    for question, answer in zip(asked, tiny_stack.ask(*asked), strict=True):
        check_drawn(tiny_reference, question, answer)
        assert answer.finishes == (["length"],) * 3
