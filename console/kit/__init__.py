"""What all pages share.

- `theme`: `ConsoleAdmin`, the base of every list and page, and the types of the admin theme.
- `display`: values as HTML: instants, spans, ids, documents, links, badges, `Section`.
- `badges`: how each state looks, in lists and in charts.
- `charts`: charts and their shapes as inline SVG. `keyset`: paging by place instead of OFFSET.

Everything returns escaped HTML (`SafeString`) or plain text that templates escape.
"""
