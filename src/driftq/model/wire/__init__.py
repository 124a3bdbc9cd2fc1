"""Requests and replies of `/v1` as types, one module a noun: server, client and pipeline share them.

A request type refuses fields it does not name (`Request`). A reply type ignores them, so that a client reads
the replies of a newer server.
"""
