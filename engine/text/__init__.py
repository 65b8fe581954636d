"""How text becomes segments of tokens while it streams in.

Reading order: `feed` (segments and tokens), `markup` → `blocks`, `spans`, `layout` (what is not
spoken goes), `normalise` → `readings`, `spoken`, `units` (numbers to words), `sentences` (where a
segment may end), `characters` (classes, weights, positions).
"""
