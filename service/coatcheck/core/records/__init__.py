"""Records: rows, objects, elements and items in one form, counted by one statistic and shown in one way."""
