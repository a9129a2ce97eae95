"""The network on a CPU in bfloat16: one pass over memory where torch makes several."""
