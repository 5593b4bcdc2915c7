mock_provider "google" {}

variables {
  name   = "nightshift-dev"
  region = "europe-west4"
}

run "each_input_is_refused_by_name" {
  command = plan

  module {
    source = "./modules/network"
  }

  variables {
    name                   = "Nightshift"
    node_range             = "10.0.0.0"
    pod_range              = "10.4.0.0/22"
    service_range          = "services"
    control_plane_range    = "172.16.0.0/24"
    service_peering_prefix = 24
  }

  expect_failures = [
    var.name,
    var.node_range,
    var.pod_range,
    var.service_range,
    var.control_plane_range,
    var.service_peering_prefix,
  ]
}
