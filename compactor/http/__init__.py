"""The HTTP service: sessions and stored configs for bots in any language. `app.create_app` makes it."""
