"""The end of a run: what is used has to be ahead of the default schedule for whoever calls it.

final   the best and the default schedule in turns      race         who has a turn in the next round
verdict who has won                                     in_network   the same as steps of a network
"""
