"""List the tests that prove each requirement, from the marks in the source of the tests."""
