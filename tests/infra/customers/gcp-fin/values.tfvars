# a bank in Iowa: own name and groups, small data on Filestore, GPUs that are paid for by the hour
project_id      = "fin-models-prod"
billing_account = "ABCDEF-012345-6789AB"
name            = "fin"
environment     = "fin"
region          = "us-central1"
zones           = ["us-central1-a", "us-central1-c", "us-central1-f"]
release_channel = "STABLE"

external_control_plane = true
people_domain          = "fin.example"
deletion_protection    = true

sources       = ["fin-raw-transactions"]
image_readers = ["other-nodes@fin-models-dev.iam.gserviceaccount.com"]

general_pool = { machine_type = "n2-standard-8", min_nodes = 3, max_nodes = 6 }

gpu_pools = {
  small = { accelerator = "nvidia-l4", gpus = 1, max_nodes = 4, capacity = "on_demand", zones = ["us-central1-a", "us-central1-c"] }
  four  = { accelerator = "nvidia-tesla-a100", gpus = 4, max_nodes = 1, capacity = "reserved", zones = ["us-central1-f"], reservation = "fin-a100" }
}

filestore = { zone = "us-central1-c", capacity_gib = 2560 }

budget = { amount = 9000, emails = ["models@fin.example"] }

labels = { cost-center = "risk" }
