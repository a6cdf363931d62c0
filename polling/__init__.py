"""The declarative polling scheduler has its room here; it is not built yet."""
