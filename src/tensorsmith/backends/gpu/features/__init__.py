"""What is known of a GPU's kernels before any is run: the schema, the patterns of a warp's accesses, and the columns made of
them."""
