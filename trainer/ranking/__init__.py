"""Learning to rank tools from judged rankings: what `toolatlas train run` trains for the router."""
