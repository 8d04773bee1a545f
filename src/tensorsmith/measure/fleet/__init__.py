"""Measuring elsewhere: any number of nodes, each a machine that builds, checks and times candidates as this one would.

tuner   dispatch   who gets what: requeue, stragglers, calibration; no I/O, no clock       members    what it knows of a node
        runner     the `Runner` over it                                                    transport  how messages go to nodes and back
        command    a transport: a command such as "ssh board"                              by_ray     another: the nodes of a Ray cluster
node    station    what a node does                                                        node       a station on standard input and output
both    forms      what the messages say                                                   health     load, temperature, emulator
"""
