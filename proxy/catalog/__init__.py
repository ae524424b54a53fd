"""Which tools exist, under which written names: records, snapshot, stubs, argument checks, disk cache."""
