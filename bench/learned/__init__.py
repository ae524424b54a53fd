"""What learning is worth: the parts of `python -m bench learn`, each with traffic that is simulated.

Agents and servers are those of bench/traffic. Rewards come from the judge alone; what the simulator knows of an episode
is read for one thing: which task of the file it worked, so that no row of a held-out task is trained on.
"""
