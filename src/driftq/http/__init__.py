"""The HTTP edge: `/v1` on an asyncio protocol, with requests checked by types and answers made of bytes."""
