"""What a run will take, estimated before it begins."""
