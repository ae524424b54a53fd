"""What people call: one module for each family of commands."""
