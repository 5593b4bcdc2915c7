# a retailer in Ireland: own name and range, small machines, one file system larger than dev's, another account's images
name                = "acme"
environment         = "retail"
region              = "eu-west-1"
zones               = ["eu-west-1b", "eu-west-1c"]
cidr                = "10.96.0.0/17"
kubernetes_version  = "1.36"
nat_per_zone        = false
interface_endpoints = ["ecr.api", "ecr.dkr", "sts", "eks-auth"]
deletion_protection = true
log_days            = 90

administrators = ["arn:aws:iam::444444444444:role/platform"]
people = {
  operators = ["arn:aws:iam::444444444444:role/ml", "arn:aws:iam::444444444444:role/ml-night"]
  readers   = ["arn:aws:iam::444444444444:role/audit"]
}

sources       = { "acme-tills" = { kms_key_arn = "arn:aws:kms:eu-west-3:555555555555:key/0" } }
image_readers = ["555555555555"]

general_pool = { instance_types = ["m6i.2xlarge"], min = 2, max = 4, disk_gib = 80 }

gpu_pools = {
  night-spot = { instance_types = ["g4dn.xlarge", "g5.xlarge", "g6.xlarge"], capacity = "spot", max = 3 }
  steady     = { instance_types = ["g5.xlarge"], capacity = "on_demand", max = 1, zones = ["eu-west-1c"] }
}

lustre = { capacity_gib = 2400, throughput = 125 }

budget = { monthly_usd = 3500, anomaly_usd = 200, emails = ["ml@acme.example", "finance@acme.example"] }

tags = { cost-center = "4711" }
