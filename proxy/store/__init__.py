"""What trainer and judge may import: the record of what agents did, and how it is written and read."""
