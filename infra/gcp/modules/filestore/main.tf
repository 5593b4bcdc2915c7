resource "google_filestore_instance" "this" {
  name     = var.name
  location = var.zone
  tier     = "BASIC_HDD"
  labels   = var.labels

  file_shares {
    name        = "nightshift"
    capacity_gb = var.capacity_gib
  }

  networks {
    network      = var.network
    modes        = ["MODE_IPV4"]
    connect_mode = "PRIVATE_SERVICE_ACCESS"
  }
}
