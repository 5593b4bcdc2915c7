# the smallest environment, for a first night: state in the bucket, no Lustre, no NAT gateway, one spot node for all
# that always runs, and of the cluster's services Airflow and MLflow alone
environment         = "try"
region              = "us-east-1"
zones               = ["us-east-1a", "us-east-1b"]
kubernetes_version  = "1.35"
nat_per_zone        = false
public_nodes        = true
deletion_protection = false
log_days            = 7
lustre              = null

# yours
administrators = ["arn:aws:iam::000000000000:role/administrators"]
people = {
  operators = ["arn:aws:iam::000000000000:role/operators"]
  readers   = ["arn:aws:iam::000000000000:role/readers"]
}

# the second comes at night, for steps
general_pool = {
  instance_types = ["t3a.xlarge", "t3.xlarge", "m6a.xlarge", "m6i.xlarge"]
  capacity       = "spot"
  max            = 2
  disk_gib       = 50
}

gpu_pools = {
  spot = {
    instance_types = ["g6.2xlarge", "g5.2xlarge", "g4dn.2xlarge"]
    capacity       = "spot"
    max            = 1
    disk_gib       = 100
  }
}

budget = {
  monthly_usd = 200
  anomaly_usd = 20
  emails      = ["nightshift@example.com"]
}
