"""Measuring elsewhere: any number of nodes, each a machine that builds, checks and times candidates as this one would.

dispatch    who gets what: requeue, stragglers, calibration; no I/O, no clock
queues      items that wait, by group
calibration whether the times of a node can be believed
members     what the dispatcher knows of nodes
runner      the `Runner` over it; `jobs`, what it has not finished
transport   how messages go to nodes and back; `command` ("ssh board") and `by_ray` are two
greeting    who is there, asked without measuring anything
status      what people are shown of a node
published   what runs tell those who look on
forms       what the messages say; `answers`, those of nodes, read and checked `fields` by `fields`
imports     what a node imports for a tuner
station     what a node does; `node` is one on standard input and output
health      of the machine that a node runs on: load, temperature
"""
