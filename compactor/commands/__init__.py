"""Each Redis operation as data: script, keys, arguments, parser. Nothing here talks to a server."""
