"""Draw the Mermaid diagrams of the documentation as inline SVG while the site is built.

The site needs no third party's script or server. Only the syntax that the pages use is supported; anything
else raises an error and stops the build. Sites that render Mermaid themselves, such as GitHub, draw the same
text.
"""
