"""tiktoken's cl100k and o200k rank files, compressed; see `python -m compactor.vocabularies`."""
