output "vertex_email" {
  description = "The account a Vertex AI endpoint runs as."
  value       = google_service_account.vertex.email
}
