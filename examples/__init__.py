"""Jobs to start from.

`basic`, `parallel` and `recovery` show one feature each: `PUNCTUAL_APPS=examples make demo` runs them. The
sub-package `demo` is the app that `make demo` installs. The tests run all of them.
"""
