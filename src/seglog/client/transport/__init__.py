"""HTTP/1.1 connections of the clients."""
