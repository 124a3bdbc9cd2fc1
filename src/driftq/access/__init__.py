"""Who may do what: API keys with roles and limits, their file, and the audit log."""
