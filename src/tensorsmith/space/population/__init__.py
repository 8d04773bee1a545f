"""Candidates as rows of integers, a matrix for each sketch; everything here works on columns.

population   rows and matrices                  geometry   region lengths and loop counts of whole populations
sampling     random rows                        evolve     mutation and crossover
repair       what is legal, and made so         halving    products made smaller
seeds        rows to start from                 adapt      rows like a candidate of a similar workload
embed        the row of a given candidate
"""
