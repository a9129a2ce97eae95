"""The recognizer: layers, encoder, decoder and the output layers that share one contract."""
