"""How message layouts of different APIs are read and written."""
