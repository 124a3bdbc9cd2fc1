"""The claims of handlers over HTTP."""
