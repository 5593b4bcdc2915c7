# the smallest environment, for a first night: state in the lake's bucket, no shared file system, one zone, one spot
# node for all that always runs, and of the cluster's services Airflow and MLflow alone
project_id      = "example-nightshift-try"
billing_account = "012345-6789AB-CDEF01"
environment     = "try"
region          = "europe-west4"
zones           = ["europe-west4-a"]

# the control plane's DNS name, which asks IAM who calls: the way in from outside the network
external_control_plane = true
people_domain          = "example.com"

deletion_protection = false

# the second comes at night, for steps
general_pool = { machine_type = "e2-standard-4", min_nodes = 1, max_nodes = 2, spot = true, disk_gib = 50 }

gpu_pools = {
  l4-spot = { accelerator = "nvidia-l4", gpus = 1, max_nodes = 1, capacity = "spot" }
  l4      = { accelerator = "nvidia-l4", gpus = 1, max_nodes = 1, capacity = "on_demand" }
}

budget = { amount = 200, emails = ["ml-platform@example.com"] }

labels = { cost-center = "ml-platform" }
