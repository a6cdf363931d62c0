"""An app with declarations, for the tests of discovery."""
