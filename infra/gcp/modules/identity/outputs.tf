output "emails" {
  description = "Google service accounts by workload."
  value       = { for name, account in google_service_account.workloads : name => account.email }
}

output "vertex_email" {
  description = "The account a Vertex AI endpoint runs as."
  value       = google_service_account.vertex.email
}
