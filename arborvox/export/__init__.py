"""Models that leave PyTorch behind: ONNX graphs, sherpa-onnx's form, a page without a server."""
