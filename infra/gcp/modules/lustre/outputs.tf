output "volume" {
  description = "The instance, as the persistent volume names it."
  value = {
    handle       = join("/", [google_lustre_instance.this.project, var.zone, google_lustre_instance.this.instance_id])
    ip           = split("@", google_lustre_instance.this.mount_point)[0]
    filesystem   = google_lustre_instance.this.filesystem
    capacity_gib = google_lustre_instance.this.capacity_gib
  }
}
