project_id      = "example-nightshift-dev"
billing_account = "012345-6789AB-CDEF01"
environment     = "dev"
region          = "europe-west4"
zones           = ["europe-west4-a", "europe-west4-b"]

# the control plane's DNS name, which asks IAM who calls: the way in from outside the network
external_control_plane = true
people_domain          = "example.com"

deletion_protection = false

# prod's nodes, once there are any
image_readers = []

general_pool = { machine_type = "e2-standard-8", min_nodes = 1, max_nodes = 4 }

gpu_pools = {
  l4-spot = { accelerator = "nvidia-l4", gpus = 1, max_nodes = 2, capacity = "spot" }
  l4      = { accelerator = "nvidia-l4", gpus = 1, max_nodes = 1, capacity = "on_demand" }
}

# Lustre's smallest, 9,000 GiB, would cost more than all else
filestore = {}

budget = { amount = 2000, emails = ["ml-platform@example.com"] }

labels = { cost-center = "ml-platform" }
