"""What we generate for, whatever kind it is, and what is asked of the machine that we run on.

target     the facts that every kind has, and the kinds there are      host     threads and memory here
"""
