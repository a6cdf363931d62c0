"""The diagrams of the documentation: Mermaid text → inline SVG, without anybody else's script or server.

Only what these pages use is understood; anything else is an error, and with it the build. Where Mermaid is
drawn by the reader's own site, the same text is drawn there.
"""
