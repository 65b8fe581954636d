"""`playhead bench`: what listeners of any speech server hear, by one set of definitions."""
