"""Delivering: which consumers are connected, what each gets next, and what is on its way to them."""
