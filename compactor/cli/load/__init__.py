"""Load for measurements: a server, a model of a given latency, workers, and conversations that need compacting."""
