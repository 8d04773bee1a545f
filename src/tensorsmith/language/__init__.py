"""Language models: read from files, one token after another.

gguf.py, safetensors.py     what is in a file, mapped into memory
blocks.py, weight.py        how a matrix is stored; what of it is wanted
from_gguf.py, from_folder.py    a file's words for sizes and weights -> families.py, ours
architecture.py, rotary.py  what a network of any family is made of
network.py                  one step as a graph: some tokens of some sequences
model.py                    what `ts.load` gives
programs.py, sequence.py    a program for each size of step; the keys and values of a sequence
generator.py, sampling.py   what `ts.compile` makes of it: text
tokens.py, chat.py          text to ids and back
"""
