"""What tuning minimises, one module each with its equation and source."""
