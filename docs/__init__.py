"""The documentation. The only code here draws its diagrams."""
