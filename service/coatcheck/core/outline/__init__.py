"""What is in an artifact and where: headings, results, symbols, files and hunks, columns, keys, phases.

`model` says what an entry is; one module for each way of finding them; `render` writes them down within a budget.
Pure: `Scanner`s are fed whole lines and hold no more than the entries that they found.
"""
