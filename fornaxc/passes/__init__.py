"""Graph to Graph, each a file; `pipeline.py` orders them."""
