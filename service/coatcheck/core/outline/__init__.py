"""What is in an artifact and where: headings, results, symbols, files and hunks, columns, keys, phases.

`model` defines entries; there is one module per way of finding them; `render` lists them within a budget. Pure:
scanners are fed whole lines and keep only the entries that they found.
"""
