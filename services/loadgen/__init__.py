"""The load generator: `baton bench` measures any server that speaks OpenAI's API."""
