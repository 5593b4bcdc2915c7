mock_provider "google" {}

variables {
  name               = "nightshift-dev"
  zone               = "europe-west4-a"
  capacity_gib       = 9000
  throughput         = 1000
  legacy_port        = false
  driver_legacy_port = false
  network            = "network"
  servers            = "10.100.0.0/20"
  clients            = "nodes@example-project.iam.gserviceaccount.com"
  key                = "key"
  service_agent      = "serviceAccount:agent"
  bucket             = "lake"
}

run "port_988_by_default" {
  command = plan

  module {
    source = "./modules/lustre"
  }

  assert {
    condition     = !google_lustre_instance.this.gke_support_enabled && one(google_compute_firewall.callbacks.allow).ports == tolist(["988"])
    error_message = "instance and firewall agree on 988"
  }
}

run "port_6988_everywhere_where_it_is_asked_for" {
  command = plan

  module {
    source = "./modules/lustre"
  }

  variables {
    legacy_port        = true
    driver_legacy_port = true
    # beyond 1530000 the step is 72000
    capacity_gib = 1584000
  }

  assert {
    condition     = google_lustre_instance.this.gke_support_enabled && one(google_compute_firewall.callbacks.allow).ports == tolist(["6988"])
    error_message = "instance and firewall agree on 6988"
  }
}
