"""The HTTP edge: `/v1` on an asyncio protocol, with typed requests and replies written as bytes."""
