"""Whether a judge may be believed: canaries, a gold set, agreement with people, calibration."""
