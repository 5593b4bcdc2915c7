output "volume" {
  description = "The instance, as the persistent volume names it."
  value = {
    handle       = join("/", ["modeInstance", var.zone, google_filestore_instance.this.name, one(google_filestore_instance.this.file_shares).name])
    ip           = one(one(google_filestore_instance.this.networks).ip_addresses)
    share        = one(google_filestore_instance.this.file_shares).name
    capacity_gib = one(google_filestore_instance.this.file_shares).capacity_gb
  }
}
