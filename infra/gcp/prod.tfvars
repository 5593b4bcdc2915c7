project_id      = "example-nightshift-prod"
billing_account = "012345-6789AB-CDEF01"
environment     = "prod"
region          = "europe-west4"
zones           = ["europe-west4-a", "europe-west4-b", "europe-west4-c"]
release_channel = "STABLE"

# the control plane's DNS name, which asks IAM who calls: the way in from outside the network
external_control_plane = true
people_domain          = "example.com"

general_pool = { machine_type = "e2-standard-8", min_nodes = 2, max_nodes = 8 }

# A100s are in these two zones of europe-west4; elsewhere the answers name others, under `terraform`.
# The autoscaler takes what can be had: spot is cheap, flex-start waits for its turn, and the reserved node is there for
# a night on which neither comes.
gpu_pools = {
  a100-spot = { accelerator = "nvidia-tesla-a100", gpus = 1, max_nodes = 8, capacity = "spot", zones = ["europe-west4-a", "europe-west4-b"] }
  a100-flex = { accelerator = "nvidia-tesla-a100", gpus = 1, max_nodes = 4, capacity = "flex_start", zones = ["europe-west4-a", "europe-west4-b"] }
  a100-kept = { accelerator = "nvidia-tesla-a100", gpus = 1, max_nodes = 1, capacity = "reserved", zones = ["europe-west4-a"], reservation = "nightshift-a100" }
  l4        = { accelerator = "nvidia-l4", gpus = 1, max_nodes = 4, capacity = "on_demand" }
}

lustre = { capacity_gib = 18000, throughput = 1000 }

budget = { amount = 15000, emails = ["ml-platform@example.com", "finance@example.com"] }

labels = { cost-center = "ml-platform" }
