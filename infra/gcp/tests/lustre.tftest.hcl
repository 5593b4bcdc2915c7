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

run "a_capacity_is_a_multiple_of_the_tiers_step" {
  command = plan

  module {
    source = "./modules/lustre"
  }

  variables {
    capacity_gib = 10000
  }

  expect_failures = [google_lustre_instance.this]
}

run "instance_and_driver_speak_the_same_port" {
  command = plan

  module {
    source = "./modules/lustre"
  }

  variables {
    legacy_port = true
  }

  expect_failures = [google_lustre_instance.this]
}

run "each_input_is_refused_by_name" {
  command = plan

  module {
    source = "./modules/lustre"
  }

  variables {
    name       = "1-nightshift"
    throughput = 2000
  }

  expect_failures = [
    var.name,
    var.throughput,
  ]
}
