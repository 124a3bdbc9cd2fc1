"""The interface `/v1`: its routes, its request and reply types, its OpenAPI document."""
