"""The spaces, one file each."""
