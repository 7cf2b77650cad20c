"""Classes whose shares change between calibration and use: known shares, and shares estimated without labels."""
