"""Pure functions that cut, count, recognise and render. They do no I/O, and use no clock and no randomness."""
