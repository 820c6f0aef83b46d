"""What is known of the hardware: TPU generations, their compiler, their roofline."""
