"""A job's definition as one checked, frozen value, whatever its source.

Decorators, files, the console and commands all build a `document.Definition`, so the same mistake gets the
same message everywhere. A definition that exists is valid; DefinitionError carries field, value and reason.

- `document`: `Definition` and `TaskDefinition`, their validation, and their form as JSON.
- `validation`: every mistake in a JSON definition, not only the first.
- `comparison`: the fields in which two definitions differ.
"""
