"""`/openapi.json`: the routes as they are registered, with the types that read bodies and write answers."""
