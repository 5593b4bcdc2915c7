output "emails" {
  description = "Google service accounts by workload."
  value       = { for name, account in google_service_account.workloads : name => account.email }
}
