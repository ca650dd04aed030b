"""Records: what rows, objects, elements and items have in common, counted by one statistic and shown in one way."""
