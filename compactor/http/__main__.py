"""`python -m compactor.http`: writes the OpenAPI document, as docs/openapi.json holds it, to stdout."""

from __future__ import annotations

import json
import sys

from compactor.http.app import create_app
from compactor.settings import read_settings

if __name__ == "__main__":
    document = create_app(read_settings(redis_url="redis://127.0.0.1:6379/0")).openapi()
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
