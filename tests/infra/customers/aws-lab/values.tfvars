# a laboratory in Tokyo that trains on reserved machines with EFA, and throws everything away in the end
environment         = "lab"
region              = "ap-northeast-1"
zones               = ["ap-northeast-1a", "ap-northeast-1c", "ap-northeast-1d"]
cidr                = "172.20.0.0/16"
kubernetes_version  = "1.35"
nat_per_zone        = true
api_cidrs           = ["203.0.113.0/24"]
deletion_protection = false
log_days            = 14

administrators = ["arn:aws:iam::666666666666:role/lab-admin"]
people         = { operators = ["arn:aws:iam::666666666666:role/lab"] }

gpu_pools = {
  kept = {
    instance_types = ["p5.48xlarge"]
    capacity       = "reserved"
    max            = 4
    fabric         = "efa"
    reservation_id = "cr-0123456789abcdef0"
    disk_gib       = 1000
  }
  block = {
    instance_types = ["p4d.24xlarge"]
    capacity       = "capacity_block"
    max            = 2
    reservation_id = "cr-0123456789abcdef1"
    zones          = ["ap-northeast-1c"]
  }
}

lustre = { capacity_gib = 9600, throughput = 500, metadata_iops = 12000, efa = true }

budget = { monthly_usd = 60000, anomaly_usd = 2000, emails = ["pi@lab.example"] }
