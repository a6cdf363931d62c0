"""Requirements → the tests that prove them, from the marks in the tests' own source."""
