"""The paper's networks as PyTorch modules, written for the benchmark."""
