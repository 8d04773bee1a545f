"""A language model for other programs, over HTTP, in the form of OpenAI's interface.

engine.py     one thread that computes, for all who wait, side by side
requests.py   a request's JSON -> what is wanted of the engine, checked
answers.py    what came -> JSON, whole or in pieces
server.py     connections: limits, access, clients that go away
"""
