"""Hostile clients against a real server process: its memory and its answers to others are measured from outside."""
