"""Pages, tables and pictures of what was computed: for an experiment, `score` and `compare`."""
