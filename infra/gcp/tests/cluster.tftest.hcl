mock_provider "google" {}

variables {
  name                = "nightshift-dev"
  project_id          = "example-project"
  region              = "europe-west4"
  zones               = ["europe-west4-a"]
  network             = "network"
  subnetwork          = "subnetwork"
  pod_range           = "pods"
  service_range       = "services"
  kubernetes_version  = "1.35"
  release_channel     = "REGULAR"
  external            = false
  control_plane_range = "172.16.0.0/28"
  people_domain       = "example.com"
  deletion_protection = true
  legacy_lustre_port  = true
  compute_class       = false
  general_pool        = { machine_type = "e2-standard-8", min_nodes = 1, max_nodes = 4, spot = false, disk_gib = 100 }
  key                 = "key"
  repository          = { location = "europe-west4", id = "images" }
  labels              = {}
}

run "the_driver_speaks_the_port_it_is_told" {
  command = plan

  module {
    source = "./modules/cluster"
  }

  assert {
    condition     = output.legacy_lustre_port
    error_message = "the driver's port is what Lustre's is compared with"
  }
}

run "one_zone_has_its_control_plane_there" {
  command = plan

  module {
    source = "./modules/cluster"
  }

  assert {
    condition     = output.location == "europe-west4-a"
    error_message = "the control plane is in its one zone"
  }
}

run "whoever_is_in_a_group_gets_in" {
  command = plan

  module {
    source = "./modules/cluster"
  }

  assert {
    condition     = google_container_cluster.this.authenticator_groups_config[0].security_group == "gke-security-groups@example.com"
    error_message = "groups are looked up in the domain"
  }
  assert {
    condition     = google_project_iam_member.people["nightshift-readers"].member == "group:nightshift-readers@example.com"
    error_message = "and may find the cluster"
  }
}
