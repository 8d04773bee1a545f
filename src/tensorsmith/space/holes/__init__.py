"""Kinds of holes, one file each: where a sketch has such holes, and all that sampling, evolution, repair and transfer do to them.

kind        what a kind of hole is: numbers and choices      registry    the kinds by name, and kinds of the user's own
size        lengths of the parts of an axis                  at          where a stage is computed
parallel    loops that threads share                         rows        where the stages of a row are computed
unroll      steps of a reduction in a row                    loops       the order of loops
buffers     places for tiles that are fetched                factor      how many partial results an rfactor makes
matrix      tiles that matrix instructions compute    run         steps in a row that a thread takes
"""
