output "id" {
  description = "Full name of the budget."
  value       = google_billing_budget.this.id
}
