"""Tuning runs: within a budget, ask, measure, keep, tell, for one workload or for the tasks of networks.

options, budget   what a run is given      run, of_workload, of_networks   the loop      tasks/     what is tuned, step by step
history/          earlier trials           finals/   who is used in the end              progress/  what is said
"""
