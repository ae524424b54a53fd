"""Entry point of the container: `python3 -I /opt/toolatlas`."""

from supervisor import main

main()
