"""A quantised ONNX file computed in plain torch, with the file's own integers, scales and zero points."""
