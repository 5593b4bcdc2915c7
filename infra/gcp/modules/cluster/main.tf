resource "google_service_account" "nodes" {
  account_id   = "${var.name}-nodes"
  display_name = "Nodes of ${var.name}"
}

# the least that GKE asks for: logs, metrics, and what autoscaling needs
resource "google_project_iam_member" "nodes" {
  project = var.project_id
  role    = "roles/container.defaultNodeServiceAccount"
  member  = google_service_account.nodes.member
}

resource "google_artifact_registry_repository_iam_member" "nodes" {
  location   = var.repository.location
  repository = var.repository.id
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.nodes.member
}

resource "google_container_cluster" "this" {
  name = var.name
  # one zone pays for no others, and Google's free tier for a zonal control plane
  location            = length(var.zones) > 1 ? var.region : var.zones[0]
  node_locations      = length(var.zones) > 1 ? var.zones : null
  network             = var.network
  subnetwork          = var.subnetwork
  networking_mode     = "VPC_NATIVE"
  datapath_provider   = "ADVANCED_DATAPATH"
  min_master_version  = var.kubernetes_version
  deletion_protection = var.deletion_protection
  resource_labels     = var.labels

  enable_shielded_nodes       = true
  enable_intranode_visibility = true

  # every pool is a resource of its own
  remove_default_node_pool = true
  initial_node_count       = 1

  node_config {
    service_account   = google_service_account.nodes.email
    boot_disk_kms_key = var.key

    shielded_instance_config {
      enable_secure_boot          = true
      enable_integrity_monitoring = true
    }

    workload_metadata_config {
      mode = "GKE_METADATA"
    }
  }

  node_pool_defaults {
    node_config_defaults {
      insecure_kubelet_readonly_port_enabled = "FALSE"
    }
  }

  release_channel {
    channel = var.release_channel
  }

  # weekends, by day: training is at night
  maintenance_policy {
    recurring_window {
      start_time = "2026-01-03T10:00:00Z"
      end_time   = "2026-01-03T18:00:00Z"
      recurrence = "FREQ=WEEKLY;BYDAY=SA,SU"
    }
  }

  ip_allocation_policy {
    cluster_secondary_range_name  = var.pod_range
    services_secondary_range_name = var.service_range
  }

  private_cluster_config {
    enable_private_nodes    = true
    enable_private_endpoint = true
    master_ipv4_cidr_block  = var.control_plane_range
  }

  control_plane_endpoints_config {
    dns_endpoint_config {
      allow_external_traffic = var.external
    }
  }

  # no block: nobody but the nodes' subnetwork
  master_authorized_networks_config {}

  master_auth {
    client_certificate_config {
      issue_client_certificate = false
    }
  }

  # the one group whose members, other groups, roles in Kubernetes may name
  dynamic "authenticator_groups_config" {
    for_each = var.people_domain == null ? [] : ["gke-security-groups@${var.people_domain}"]
    content {
      security_group = authenticator_groups_config.value
    }
  }

  workload_identity_config {
    workload_pool = "${var.project_id}.svc.id.goog"
  }

  database_encryption {
    state    = "ENCRYPTED"
    key_name = var.key
  }

  security_posture_config {
    mode = "BASIC"
  }

  addons_config {
    lustre_csi_driver_config {
      enabled                   = true
      enable_legacy_lustre_port = var.legacy_lustre_port
    }
    gcp_filestore_csi_driver_config {
      enabled = true
    }
    gce_persistent_disk_csi_driver_config {
      enabled = true
    }
  }

  # pools are scaled by the autoscaler of each; the profile decides how soon an idle node goes
  cluster_autoscaling {
    autoscaling_profile = "OPTIMIZE_UTILIZATION"
    # for pods that select no class, so that none has to
    default_compute_class_enabled = var.compute_class
  }

  cost_management_config {
    enabled = true
  }

  logging_config {
    enable_components = ["SYSTEM_COMPONENTS", "WORKLOADS", "APISERVER"]
  }

  monitoring_config {
    enable_components = ["SYSTEM_COMPONENTS", "STORAGE", "POD", "DEPLOYMENT", "STATEFULSET", "DAEMONSET", "CADVISOR", "KUBELET", "DCGM"]

    managed_prometheus {
      enabled = true
    }
  }

  lifecycle {
    # it describes the default pool, which is gone
    ignore_changes = [node_config]
  }

  depends_on = [google_project_iam_member.nodes]
}

# GKE lets the control plane call nodes at 443 and 10250 only; webhooks answer at their pods' ports, and Kueue its API at 8082
resource "google_compute_firewall" "webhooks" {
  name                    = "${var.name}-webhooks"
  network                 = var.network
  direction               = "INGRESS"
  source_ranges           = [var.control_plane_range]
  target_service_accounts = [google_service_account.nodes.email]

  allow {
    protocol = "tcp"
    ports    = ["8082", "8443", "9443"]
  }
}

# what lets people find the cluster and knock; what they may do inside is said there
resource "google_project_iam_custom_role" "people" {
  role_id     = "${replace(title(replace(var.name, "-", " ")), " ", "")}Connects"
  title       = "Connects to the cluster ${var.name}"
  permissions = ["container.clusters.connect", "container.clusters.get", "container.clusters.list"]
}

resource "google_project_iam_member" "people" {
  for_each = toset(var.people_domain == null ? [] : ["nightshift-operators", "nightshift-readers"])

  project = var.project_id
  role    = google_project_iam_custom_role.people.name
  member  = "group:${each.key}@${var.people_domain}"
}

resource "google_container_node_pool" "general" {
  name           = "general"
  cluster        = google_container_cluster.this.id
  node_locations = var.zones

  # of each zone, and only at first
  initial_node_count = 1

  autoscaling {
    total_min_node_count = var.general_pool.min_nodes
    total_max_node_count = var.general_pool.max_nodes
    location_policy      = "BALANCED"
  }

  management {
    auto_repair  = true
    auto_upgrade = true
  }

  upgrade_settings {
    max_surge       = 1
    max_unavailable = 0
  }

  node_config {
    machine_type      = var.general_pool.machine_type
    spot              = var.general_pool.spot
    image_type        = "COS_CONTAINERD"
    disk_type         = "pd-balanced"
    disk_size_gb      = var.general_pool.disk_gib
    boot_disk_kms_key = var.key
    service_account   = google_service_account.nodes.email
    oauth_scopes      = ["https://www.googleapis.com/auth/cloud-platform"]
    labels            = { "nightshift/pool" = "general" }
    resource_labels   = var.labels
    metadata          = { disable-legacy-endpoints = "true" }

    gvnic {
      enabled = true
    }

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
  }

  lifecycle {
    # the autoscaler's, and a change would recreate the pool
    ignore_changes = [initial_node_count]
  }
}
