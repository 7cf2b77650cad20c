"""Mathematics that has never heard of calibration."""
