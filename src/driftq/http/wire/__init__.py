"""HTTP on the wire: connections, parsing, responses, limits; nothing here knows a route."""
