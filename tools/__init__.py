"""What `make lint` and `make package` run: programs about the project itself. Nothing of it is installed."""
