"""Read models in targets without transactions: a port of few primitives, and the read model made of them."""
