"""Between text and tokens, both ways: tokenizer, templates, detokenizer, stop strings."""
