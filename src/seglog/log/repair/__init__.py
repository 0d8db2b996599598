"""Verifying and repairing a log, and the evidence that a repair keeps."""
