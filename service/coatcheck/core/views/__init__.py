"""Views of an artifact and the windows into them: ranges, cuts, cursors."""
