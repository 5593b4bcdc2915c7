environment         = "prod"
region              = "us-east-1"
zones               = ["us-east-1a", "us-east-1b", "us-east-1c"]
kubernetes_version  = "1.35"
nat_per_zone        = true
interface_endpoints = ["ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "logs", "sqs", "ssm", "sts"]
deletion_protection = true

# yours
administrators = ["arn:aws:iam::000000000000:role/administrators"]
people = {
  operators = ["arn:aws:iam::000000000000:role/operators"]
  readers   = ["arn:aws:iam::000000000000:role/readers"]
}

general_pool = {
  min = 3
  max = 12
}

gpu_pools = {
  spot = {
    instance_types = ["g6e.4xlarge", "g6.4xlarge", "g5.4xlarge", "g4dn.4xlarge"]
    capacity       = "spot"
    max            = 8
  }
  on-demand = {
    instance_types = ["g6e.4xlarge", "g6.4xlarge"]
    capacity       = "on_demand"
    max            = 4
  }
  # training on several nodes
  fabric = {
    instance_types  = ["p4d.24xlarge"]
    capacity        = "on_demand"
    max             = 2
    disk_gib        = 500
    fabric          = "efa"
    placement_group = true
  }
}

lustre = {
  capacity_gib = 4800
  throughput   = 250
}

budget = {
  monthly_usd = 20000
  anomaly_usd = 500
  emails      = ["nightshift@example.com"]
}
