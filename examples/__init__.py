"""Three small examples to start from: `PUNCTUAL_APPS=examples make demo` runs them; tests do too."""
