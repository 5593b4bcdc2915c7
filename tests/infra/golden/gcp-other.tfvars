# every value is another than in dev and prod, so that what should follow one and does not is seen; and every choice is
# taken that neither takes
project_id         = "another-project"
billing_account    = "ABCDEF-012345-6789AB"
name               = "moonlight"
environment        = "other"
region             = "us-central1"
zones              = ["us-central1-c", "us-central1-a"]
kubernetes_version = "1.36"

external_control_plane = false
people_domain          = "example.org"
deletion_protection    = false
protected_data         = true
access_log_days        = 400

sources       = ["elsewhere"]
image_readers = ["other-nodes@other-project.iam.gserviceaccount.com"]

general_pool = { machine_type = "e2-standard-4", min_nodes = 3, max_nodes = 5 }

gpu_pools = {
  near   = { accelerator = "nvidia-tesla-a100", gpus = 8, max_nodes = 2, capacity = "on_demand", zones = ["us-central1-a"], fabric = "compact" }
  linked = { accelerator = "nvidia-h200-141gb", gpus = 8, max_nodes = 3, capacity = "flex_start", zones = ["us-central1-c"], fabric = "rdma", max_run_hours = 8 }
}

lustre = { zone = "us-central1-c", capacity_gib = 36000, throughput = 250, legacy_port = true }

budget = { amount = 300, emails = ["one@example.org"] }

labels = { environment = "theirs", team = "night" }

compute_class = true
gpu_sharing   = "mig"
