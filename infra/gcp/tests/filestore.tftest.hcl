# A share of a size that the tier has.
mock_provider "google" {}

variables {
  name         = "nightshift-dev"
  zone         = "europe-west4-a"
  capacity_gib = 1024
  network      = "projects/example-project/global/networks/nightshift-dev"
  labels       = { application = "nightshift" }
}

run "it_is_mounted_by_its_zone_name_and_share" {
  command = apply

  module {
    source = "./modules/filestore"
  }

  override_resource {
    target = google_filestore_instance.this
    values = { networks = { ip_addresses = ["10.0.0.2"] } }
  }

  assert {
    condition     = output.volume == { handle = "modeInstance/europe-west4-a/nightshift-dev/nightshift", ip = "10.0.0.2", share = "nightshift", capacity_gib = 1024 }
    error_message = "what the driver asks for"
  }
}
