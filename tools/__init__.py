"""Programs for `make lint` and `make package`, about the project itself. They are not installed."""
