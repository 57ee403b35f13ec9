"""The router service: HTTP, templates, tokens to text and back. What becomes of a request is decided by its machine."""
