"""The live page at `/` of the API: HTML from a console's answers. Read `shell.py` first; a module for each part."""
