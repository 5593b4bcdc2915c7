"""Who calls whom in a cluster, and whether names, ports, accounts and network policies let it happen."""
