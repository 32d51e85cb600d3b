"""Trade-off functions as experiments: the dominating pair, its conjugate, and the combinators."""
