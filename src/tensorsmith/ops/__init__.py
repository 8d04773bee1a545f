"""The operator library: each operator is a function from tensors to a tensor, defined in the words of `lang`.

elementwise  broadcasting maps, activations    reduce     sum, mean, max, min, argmax, argmin over axes
linalg       matmul, batch_matmul, dense       conv       pad, convolutions of 1-3 dimensions, transposed, capsule
pool         max and average pooling           norm       matrix norm, layer and batch norm, softmax
resample     resize by tables, grid sampling   recurrent  cells of LSTM, GRU and RNN
quantised    to small integers and back        blocks     products with weights quantised in blocks
subgraphs    fused layers of the paper         catalogue  named workloads for tests and benchmarks

Images are channels-last (NLC, NHWC, NDHWC), weights are K.., CI, CO. Every operator takes `name`, the name of its last
stage; the stages before it are called `name_...`. Give every operator of a workload a name of its own.
"""
