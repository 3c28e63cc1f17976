"""Readers of model formats: each turns a file into the internal graph."""
