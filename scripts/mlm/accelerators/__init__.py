"""The train step compiled for TPU targets on a machine without one."""
