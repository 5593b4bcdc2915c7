locals {
  # GiB: the smallest size and step, the size from which steps are larger, the step there, the largest
  tiers = {
    "1000" = { step = 9000, threshold = 1530000, large_step = 72000, max = 10008000 }
    "500"  = { step = 18000, threshold = 3060000, large_step = 144000, max = 20016000 }
    "250"  = { step = 36000, threshold = 6120000, large_step = 288000, max = 40032000 }
    "125"  = { step = 72000, threshold = 12240000, large_step = 72000, max = 12240000 }
  }
  tier = local.tiers[tostring(var.throughput)]
  step = var.capacity_gib <= local.tier.threshold ? local.tier.step : local.tier.large_step
  port = var.legacy_port ? "6988" : "988"
}

resource "google_lustre_instance" "this" {
  instance_id                 = var.name
  location                    = var.zone
  filesystem                  = "lustre"
  network                     = var.network
  capacity_gib                = var.capacity_gib
  per_unit_storage_throughput = var.throughput
  gke_support_enabled         = var.legacy_port
  kms_key                     = var.key

  timeouts {
    create = "120m"
  }

  lifecycle {
    precondition {
      condition     = var.capacity_gib >= local.tier.step && var.capacity_gib <= local.tier.max && var.capacity_gib % local.step == 0
      error_message = "capacity_gib ${var.capacity_gib} at ${var.throughput} MB/s for each TiB: take a multiple of ${local.step} from ${local.tier.step} to ${local.tier.max}."
    }
    precondition {
      condition     = var.legacy_port == var.driver_legacy_port
      error_message = "The instance and the cluster's driver have to speak the same port: 988, or 6988 on both (legacy_port)."
    }
  }
}

# servers call their clients back, from another network
resource "google_compute_firewall" "callbacks" {
  name                    = "${var.name}-lustre"
  network                 = var.network
  direction               = "INGRESS"
  source_ranges           = [var.servers]
  target_service_accounts = [var.clients]

  allow {
    protocol = "tcp"
    ports    = [local.port]
  }
}

# import and export are started by hand or by a pipeline; the service agent does the copying
resource "google_storage_bucket_iam_member" "transfer" {
  bucket = var.bucket
  role   = "roles/storage.objectUser"
  member = var.service_agent
}
