mock_provider "google" {}

variables {
  cluster         = "cluster"
  cluster_zones   = ["europe-west4-a", "europe-west4-b"]
  service_account = "nodes@example-project.iam.gserviceaccount.com"
  key             = "key"
  labels          = {}
  pools = {
    l4   = { accelerator = "nvidia-l4", gpus = 1, max_nodes = 1, capacity = "on_demand", zones = ["europe-west4-a"] }
    spot = { accelerator = "nvidia-l4", gpus = 2, max_nodes = 3, capacity = "spot", zones = ["europe-west4-a", "europe-west4-b"] }
    flex = { accelerator = "nvidia-h100-80gb", gpus = 1, max_nodes = 3, capacity = "flex_start", zones = ["europe-west4-b"], max_run_hours = 8 }
    kept = { accelerator = "nvidia-h200-141gb", gpus = 8, max_nodes = 2, capacity = "reserved", zones = ["europe-west4-b"], reservation = "ours", fabric = "rdma" }
    near = { accelerator = "nvidia-tesla-a100", gpus = 8, max_nodes = 2, capacity = "on_demand", zones = ["europe-west4-a"], fabric = "compact" }
  }
}

run "each_capacity_is_asked_for_in_its_own_way" {
  command = plan

  module {
    source = "./modules/gpu_pools"
  }

  assert {
    condition     = alltrue([for pool in google_container_node_pool.gpu : pool.autoscaling[0].total_min_node_count == 0 && pool.initial_node_count == 0])
    error_message = "every pool scales from zero"
  }
  assert {
    condition     = [for taint in google_container_node_pool.gpu["spot"].node_config[0].taint : taint.key] == ["nvidia.com/gpu", "nightshift/spot"]
    error_message = "a spot pool has both taints"
  }
  assert {
    condition     = { for name, pool in google_container_node_pool.gpu : name => pool.node_config[0].labels["nightshift/gpus"] } == { l4 = "1", spot = "2", flex = "1", kept = "8", near = "8" }
    error_message = "a step of one GPU finds nodes of one"
  }
  assert {
    condition     = google_container_node_pool.gpu["flex"].node_config[0].max_run_duration == "28800s" && google_container_node_pool.gpu["flex"].upgrade_settings[0].strategy == "SHORT_LIVED"
    error_message = "a flex-start node ends with its time"
  }
  assert {
    condition     = google_container_node_pool.gpu["kept"].node_config[0].reservation_affinity[0].values == toset(["ours"])
    error_message = "a reserved pool takes its reservation and no other"
  }
  assert {
    condition     = google_container_node_pool.gpu["kept"].network_config[0].accelerator_network_profile == "auto"
    error_message = "GKE makes the networks of rdma"
  }
  assert {
    condition     = google_container_node_pool.gpu["near"].placement_policy[0].type == "COMPACT"
    error_message = "compact nodes lie close together"
  }
  assert {
    condition     = alltrue([for name in ["l4", "spot", "flex", "kept"] : length(google_container_node_pool.gpu[name].placement_policy) == 0])
    error_message = "nothing else is placed"
  }
}

run "small_models_share_gpus_on_nodes_that_no_step_chooses" {
  command = plan

  module {
    source = "./modules/gpu_pools"
  }

  variables {
    pools = {
      l4     = { accelerator = "nvidia-l4", gpus = 1, max_nodes = 1, capacity = "on_demand", zones = ["europe-west4-a"] }
      turns  = { accelerator = "nvidia-rtx-pro-6000", gpus = 1, max_nodes = 1, capacity = "on_demand", zones = ["europe-west4-a"], sharing = "time-slicing" }
      pieces = { accelerator = "nvidia-tesla-a100", gpus = 1, max_nodes = 1, capacity = "on_demand", zones = ["europe-west4-a"], sharing = "mig" }
    }
  }

  assert {
    condition     = { for name, pool in google_container_node_pool.gpu : name => pool.node_config[0].labels["nightshift/gpus"] } == { l4 = "1", turns = "shared", pieces = "shared" }
    error_message = "a label that no step asks for"
  }
  assert {
    condition     = google_container_node_pool.gpu["turns"].node_config[0].guest_accelerator[0].gpu_sharing_config[0].max_shared_clients_per_gpu == 4
    error_message = "four pods take turns"
  }
  assert {
    condition     = google_container_node_pool.gpu["pieces"].node_config[0].guest_accelerator[0].gpu_partition_size == "1g.5gb"
    error_message = "an A100 in seven pieces"
  }
}
