"""Candidates as rows of integers, a matrix for each sketch; everything here works on columns.

population   rows and matrices                geometry   region lengths and loop counts of whole populations
sampling     random rows                      evolve     mutation and crossover
repair       what is legal, and made so       seeds      hardware-aligned rows
embed        the row of a given candidate     adapt      rows like a candidate of a similar workload
"""
