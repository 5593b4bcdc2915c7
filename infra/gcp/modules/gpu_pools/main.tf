locals {
  # What Google sells with an accelerator: the machine type, its local SSDs, the boot disk it takes, and the
  # capacities it can be had by.
  any_capacity  = ["on_demand", "spot", "flex_start", "reserved"]
  interruptible = ["spot", "flex_start"]
  not_on_demand = ["spot", "flex_start", "reserved"]
  machines = {
    "nvidia-l4 x1"             = { type = "g2-standard-12", ssds = 1, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-l4 x2"             = { type = "g2-standard-24", ssds = 2, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-l4 x4"             = { type = "g2-standard-48", ssds = 4, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-l4 x8"             = { type = "g2-standard-96", ssds = 8, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-tesla-a100 x1"     = { type = "a2-highgpu-1g", ssds = 1, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-tesla-a100 x2"     = { type = "a2-highgpu-2g", ssds = 2, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-tesla-a100 x4"     = { type = "a2-highgpu-4g", ssds = 4, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-tesla-a100 x8"     = { type = "a2-highgpu-8g", ssds = 8, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-a100-80gb x1"      = { type = "a2-ultragpu-1g", ssds = 1, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-a100-80gb x2"      = { type = "a2-ultragpu-2g", ssds = 2, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-a100-80gb x4"      = { type = "a2-ultragpu-4g", ssds = 4, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-a100-80gb x8"      = { type = "a2-ultragpu-8g", ssds = 8, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-h100-80gb x1"      = { type = "a3-highgpu-1g", ssds = 2, disk = "pd-balanced", capacities = local.interruptible }
    "nvidia-h100-80gb x2"      = { type = "a3-highgpu-2g", ssds = 4, disk = "pd-balanced", capacities = local.interruptible }
    "nvidia-h100-80gb x4"      = { type = "a3-highgpu-4g", ssds = 8, disk = "pd-balanced", capacities = local.interruptible }
    "nvidia-h100-80gb x8"      = { type = "a3-highgpu-8g", ssds = 16, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-h100-mega-80gb x8" = { type = "a3-megagpu-8g", ssds = 16, disk = "pd-balanced", capacities = local.any_capacity }
    "nvidia-h200-141gb x8"     = { type = "a3-ultragpu-8g", ssds = 32, disk = "hyperdisk-balanced", capacities = local.not_on_demand }
    "nvidia-rtx-pro-6000 x1"   = { type = "g4-standard-48", ssds = 4, disk = "hyperdisk-balanced", capacities = local.any_capacity }
    "nvidia-rtx-pro-6000 x2"   = { type = "g4-standard-96", ssds = 8, disk = "hyperdisk-balanced", capacities = local.any_capacity }
    "nvidia-rtx-pro-6000 x4"   = { type = "g4-standard-192", ssds = 16, disk = "hyperdisk-balanced", capacities = local.any_capacity }
    "nvidia-rtx-pro-6000 x8"   = { type = "g4-standard-384", ssds = 32, disk = "hyperdisk-balanced", capacities = local.any_capacity }
    "nvidia-b200 x8"           = { type = "a4-highgpu-8g", ssds = 32, disk = "hyperdisk-balanced", capacities = local.not_on_demand }
  }
  machine = { for name, pool in var.pools : name => local.machines["${pool.accelerator} x${pool.gpus}"] }

  # how a pool consumes reservations: not at all where the capacity comes from elsewhere
  consumption = {
    on_demand  = "NO_RESERVATION"
    spot       = "NO_RESERVATION"
    flex_start = "NO_RESERVATION"
    reserved   = "SPECIFIC_RESERVATION"
  }
  # the smallest partition of a GPU, seven of which there are of each
  # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus-multi
  partitions = {
    nvidia-tesla-a100     = "1g.5gb"
    nvidia-a100-80gb      = "1g.10gb"
    nvidia-h100-80gb      = "1g.10gb"
    nvidia-h100-mega-80gb = "1g.10gb"
    nvidia-h200-141gb     = "1g.18gb"
    nvidia-b200           = "1g.23gb"
  }
  taints = {
    gpu  = { key = "nvidia.com/gpu", value = "present" }
    spot = { key = "nightshift/spot", value = "true" }
  }
}

resource "google_container_node_pool" "gpu" {
  for_each = var.pools

  name               = each.key
  cluster            = var.cluster
  node_locations     = each.value.zones
  initial_node_count = 0

  # ANY takes what capacity there is in any zone, where BALANCED would wait for the scarce one
  autoscaling {
    total_min_node_count = 0
    total_max_node_count = each.value.max_nodes
    location_policy      = "ANY"
  }

  # a flex-start node is never repaired: it ends with its time
  management {
    auto_repair  = each.value.capacity != "flex_start"
    auto_upgrade = true
  }

  # no surge, since a further GPU may be beyond the quota
  upgrade_settings {
    strategy        = each.value.capacity == "flex_start" ? "SHORT_LIVED" : "SURGE"
    max_surge       = each.value.capacity == "flex_start" ? null : 0
    max_unavailable = each.value.capacity == "flex_start" ? null : 1
  }

  dynamic "placement_policy" {
    for_each = each.value.fabric == "compact" ? ["COMPACT"] : []
    content {
      type = placement_policy.value
    }
  }

  # GKE makes the networks of the RDMA interfaces itself, and offers them to pods by its DRANET driver
  dynamic "network_config" {
    for_each = each.value.fabric == "rdma" ? ["auto"] : []
    content {
      accelerator_network_profile = network_config.value
    }
  }

  node_config {
    machine_type      = local.machine[each.key].type
    image_type        = "COS_CONTAINERD"
    disk_type         = local.machine[each.key].disk
    disk_size_gb      = 200
    boot_disk_kms_key = var.key
    service_account   = var.service_account
    oauth_scopes      = ["https://www.googleapis.com/auth/cloud-platform"]
    spot              = each.value.capacity == "spot"
    flex_start        = each.value.capacity == "flex_start"
    max_run_duration  = each.value.capacity == "flex_start" ? "${each.value.max_run_hours * 3600}s" : null
    resource_labels   = var.labels
    metadata          = { disable-legacy-endpoints = "true" }
    labels = merge(
      # by the second a step chooses a node that has no more GPUs than it takes
      { "nightshift/pool" = "gpu", "nightshift/gpus" = each.value.sharing == "none" ? tostring(each.value.gpus) : "shared" },
      each.value.fabric == "rdma" ? { "cloud.google.com/gke-networking-dra-driver" = "true" } : {},
    )

    dynamic "taint" {
      for_each = each.value.capacity == "spot" ? [local.taints.gpu, local.taints.spot] : [local.taints.gpu]
      content {
        key    = taint.value.key
        value  = taint.value.value
        effect = "NO_SCHEDULE"
      }
    }

    guest_accelerator {
      type  = each.value.accelerator
      count = each.value.gpus

      gpu_driver_installation_config {
        gpu_driver_version = "DEFAULT"
      }

      gpu_partition_size = each.value.sharing == "mig" ? local.partitions[each.value.accelerator] : null

      dynamic "gpu_sharing_config" {
        for_each = each.value.sharing == "time-slicing" ? [4] : []
        content {
          gpu_sharing_strategy       = "TIME_SHARING"
          max_shared_clients_per_gpu = gpu_sharing_config.value
        }
      }
    }

    # scratch space of pods
    ephemeral_storage_local_ssd_config {
      local_ssd_count = local.machine[each.key].ssds
    }

    reservation_affinity {
      consume_reservation_type = local.consumption[each.value.capacity]
      key                      = each.value.capacity == "reserved" ? "compute.googleapis.com/reservation-name" : null
      values                   = each.value.capacity == "reserved" ? [each.value.reservation] : null
    }

    gvnic {
      enabled = true
    }

    # image streaming: the GPU image is gigabytes, of which a step reads a part
    gcfs_config {
      enabled = true
    }

    shielded_instance_config {
      enable_secure_boot          = true
      enable_integrity_monitoring = true
    }

    workload_metadata_config {
      mode = "GKE_METADATA"
    }

    kubelet_config {
      insecure_kubelet_readonly_port_enabled = "FALSE"
      # GKE's own are 30 s, of which pods have 15. The most there is, less critical pods' part: what a checkpoint may take.
      # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
      shutdown_grace_period_seconds               = each.value.capacity == "spot" ? 120 : null
      shutdown_grace_period_critical_pods_seconds = each.value.capacity == "spot" ? 15 : null
    }
  }

  lifecycle {
    # the autoscaler's, and a change would recreate the pool
    ignore_changes = [initial_node_count]

    precondition {
      condition     = contains(local.machine[each.key].capacities, each.value.capacity)
      error_message = "${local.machine[each.key].type} of pool ${each.key} cannot be had as ${each.value.capacity}, but as ${join(", ", local.machine[each.key].capacities)}."
    }
    precondition {
      condition     = length(each.value.zones) > 0 && length(setsubtract(each.value.zones, var.cluster_zones)) == 0
      error_message = "zones of pool ${each.key} are one or more of the cluster's: ${join(", ", var.cluster_zones)}."
    }
    precondition {
      condition     = (each.value.capacity == "reserved") == (each.value.reservation != "")
      error_message = "Pool ${each.key} names a reservation exactly when its capacity is reserved."
    }
    precondition {
      condition     = each.value.fabric != "compact" || (length(each.value.zones) == 1 && each.value.capacity != "reserved")
      error_message = "Pool ${each.key} is compact, so it lies in one zone, and its capacity is not reserved: a reservation has the placement it was made with."
    }
    precondition {
      condition     = each.value.sharing != "mig" || contains(keys(local.partitions), each.value.accelerator)
      error_message = "Pool ${each.key} shares by mig, which ${each.value.accelerator} has not; those that have are ${join(", ", keys(local.partitions))}."
    }
    precondition {
      condition     = each.value.fabric != "rdma" || contains(["nvidia-h200-141gb", "nvidia-b200"], each.value.accelerator)
      error_message = "Pool ${each.key} asks for rdma, which nvidia-h200-141gb and nvidia-b200 have."
    }
    precondition {
      condition     = each.value.capacity != "spot" || anytrue([for pool in var.pools : pool.capacity != "spot"])
      error_message = "Pool ${each.key} is spot: add a pool of another capacity, which steps run on when there is no spot to be had."
    }
  }
}
