"""How fast an artifact runs, alone or beside onnxruntime or another artifact."""
