# cheap: one NAT gateway, no interface endpoints, the smallest file system, GPUs only while something asks for them
environment         = "dev"
region              = "us-east-1"
zones               = ["us-east-1a", "us-east-1b"]
kubernetes_version  = "1.35"
nat_per_zone        = false
deletion_protection = false
log_days            = 30

# yours
administrators = ["arn:aws:iam::000000000000:role/administrators"]
people = {
  operators = ["arn:aws:iam::000000000000:role/operators"]
  readers   = ["arn:aws:iam::000000000000:role/readers"]
}

# what the cluster runs beside the pipelines takes more than one node
general_pool = { min = 2 }

# prod's account, if it has one of its own
image_readers = []

gpu_pools = {
  spot = {
    instance_types = ["g6.2xlarge", "g5.2xlarge", "g4dn.2xlarge"]
    capacity       = "spot"
    max            = 2
  }
  # when there is no spot
  on-demand = {
    instance_types = ["g6.2xlarge", "g5.2xlarge"]
    capacity       = "on_demand"
    max            = 1
  }
}

budget = {
  monthly_usd = 1000
  anomaly_usd = 50
  emails      = ["nightshift@example.com"]
}
