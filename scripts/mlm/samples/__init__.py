"""Documents to fixed-length samples in TFRecord files, named by manifests."""
