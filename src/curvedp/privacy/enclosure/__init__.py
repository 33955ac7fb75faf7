"""Rigorous enclosures of δ(ε) and μ in ball arithmetic."""
