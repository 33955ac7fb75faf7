"""The Fréchet mean: the bound on its error, the search and its passes."""
