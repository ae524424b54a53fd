"""The commands `toolatlas judge`, `rubric` and `label`."""
