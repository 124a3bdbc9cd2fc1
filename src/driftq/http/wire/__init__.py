"""HTTP on the wire: connections, parsing, responses, limits; no module here knows a route."""
