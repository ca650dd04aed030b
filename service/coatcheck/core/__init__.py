"""Pure decisions: cut, count, recognise, render. No I/O, no clock, no randomness."""
