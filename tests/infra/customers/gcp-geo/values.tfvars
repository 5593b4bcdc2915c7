# a mapping company in Singapore: spot and flex-start, Lustre at the legacy port, and nobody but administrators
project_id      = "geo-night"
billing_account = "0A1B2C-3D4E5F-678901"
environment     = "geo"
region          = "asia-southeast1"
zones           = ["asia-southeast1-b", "asia-southeast1-c"]

deletion_protection = false

general_pool = { machine_type = "e2-standard-4", min_nodes = 1, max_nodes = 10 }

gpu_pools = {
  spot = { accelerator = "nvidia-tesla-a100", gpus = 2, max_nodes = 6, capacity = "spot", zones = ["asia-southeast1-b", "asia-southeast1-c"] }
  wait = { accelerator = "nvidia-h200-141gb", gpus = 8, max_nodes = 2, capacity = "flex_start", zones = ["asia-southeast1-b"], fabric = "rdma", max_run_hours = 48 }
}

lustre = { zone = "asia-southeast1-b", capacity_gib = 36000, throughput = 250, legacy_port = true }

budget = { amount = 20000, emails = ["ops@geo.example"] }
