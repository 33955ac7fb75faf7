"""Compiled programs are kept for the next process, safely."""

import jax

from curvedp.optim._loop import keep_compiled  # what it does is seen in no result


def test_compiled_programs_are_kept_in_a_folder_of_the_users_own(tmp_path, monkeypatch):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        jax.config.update("jax_compilation_cache_dir", None)
        (tmp_path / "curvedp").mkdir()
        (tmp_path / "curvedp").chmod(0o777)  # another user could put programs there
        keep_compiled()
        assert jax.config.jax_compilation_cache_dir is None
        (tmp_path / "curvedp").chmod(0o700)
        keep_compiled()
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / "curvedp")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))  # a choice is kept
        keep_compiled()
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / "curvedp")
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
