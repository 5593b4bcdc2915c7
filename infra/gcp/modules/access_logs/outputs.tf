output "bucket" {
  description = "Name of the log bucket that says who read which object."
  value       = google_logging_project_bucket_config.this["access"].bucket_id
}
