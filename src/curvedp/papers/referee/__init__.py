"""Further published mechanisms, recomputed and attacked (docs/referee.md)."""

__all__: list[str] = []
