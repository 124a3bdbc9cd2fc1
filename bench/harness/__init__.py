"""How a figure is measured: rounds of all sides by turns, load generators, the machine's steal, JSON."""
