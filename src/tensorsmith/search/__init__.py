"""Search: policies that propose candidates and are told results. No I/O, no clock, no environment."""
