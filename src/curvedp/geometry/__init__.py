"""Where points live: manifolds with exact, batched, array-library-agnostic kernels."""
