"""Two hundred short questions, each with words of which one must be in a right answer. Made here, checked by eye."""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """A user's message and what counts as right, in lower case."""

    text: str
    answers: tuple[str, ...]


CAPITALS = {
    "France": "paris", "Italy": "rome", "Spain": "madrid", "Germany": "berlin", "Austria": "vienna", "Greece": "athens",
    "Portugal": "lisbon", "Poland": "warsaw", "Hungary": "budapest", "Ireland": "dublin", "Norway": "oslo",
    "Sweden": "stockholm", "Finland": "helsinki", "Denmark": "copenhagen", "Japan": "tokyo", "China": "beijing",
    "South Korea": "seoul", "India": "new delhi", "Egypt": "cairo", "Kenya": "nairobi", "Russia": "moscow",
    "Turkey": "ankara", "Iran": "tehran", "Iraq": "baghdad", "Canada": "ottawa", "Mexico": "mexico city",
    "Cuba": "havana", "Peru": "lima", "Chile": "santiago", "Argentina": "buenos aires", "Brazil": "bras",
    "Australia": "canberra", "Thailand": "bangkok", "Vietnam": "hanoi", "Indonesia": "jakarta", "Belgium": "brussels",
    "the Netherlands": "amsterdam", "Ukraine": "kyiv", "Romania": "bucharest", "the United Kingdom": "london",
}  # fmt: skip
OPPOSITES = {
    "hot": "cold", "big": "small", "up": "down", "fast": "slow", "light": "dark", "early": "late", "old": "young",
    "rich": "poor", "open": "close", "hard": "soft", "wet": "dry", "happy": "sad", "full": "empty", "long": "short",
    "left": "right", "strong": "weak", "high": "low", "near": "far", "day": "night", "love": "hate",
}  # fmt: skip
FACTS = {
    "How many days are in a week?": "seven|7",
    "How many months are in a year?": "twelve|12",
    "How many legs does a spider have?": "eight|8",
    "What color is the sky on a clear day?": "blue",
    "What color is grass?": "green",
    "What do bees make?": "honey",
    "Which planet do we live on?": "earth",
    "Which planet is the largest in the solar system?": "jupiter",
    "What is frozen water called?": "ice",
    "What is the chemical symbol of water?": "h2o|h₂o",
    "Which gas do humans need to breathe?": "oxygen",
    "What is the name of the star at the center of the solar system?": "sun",
    "Who wrote Romeo and Juliet?": "shakespeare",
    "Which animal says meow?": "cat",
    "Which animal barks?": "dog",
    "How many hours are in a day?": "24|twenty-four",
    "How many minutes are in an hour?": "60|sixty",
    "How many sides does a triangle have?": "three|3",
    "How many sides does a square have?": "four|4",
    "What is the first letter of the English alphabet?": "a",
}


def questions() -> list[Question]:
    """Always the same two hundred, in the same order."""
    found = [Question(f"What is the capital of {name}?", (city,)) for name, city in CAPITALS.items()]
    found += [Question(f'What is the opposite of the word "{word}"?', (other,)) for word, other in OPPOSITES.items()]
    found += [Question(text, tuple(answers.split("|"))) for text, answers in FACTS.items()]
    pairs = [(a, b) for a in range(1, 13) for b in range(1, 11)]
    found += [Question(f"What is {a} plus {b}? Answer with the number.", (str(a + b),)) for a, b in pairs]
    return found[:200]
