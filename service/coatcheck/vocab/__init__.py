"""Tokenizer vocabularies as data: gzip files, pinned by digest where they are loaded. No code lives here."""
