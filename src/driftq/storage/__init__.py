"""The data folder, where core and log meet: stored entries, the open commit, reading back, restore."""
