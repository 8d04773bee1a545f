"""The tasks of a run, tuned step by step.

tuned         what there is to do                task     a workload in all its formulations
formulation   one of its formulations            opened   those under way            shared   what all of them share
"""
