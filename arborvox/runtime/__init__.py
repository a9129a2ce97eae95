"""Exported models on onnxruntime alone; NumPy, soundfile and soxr are all else that is needed."""
