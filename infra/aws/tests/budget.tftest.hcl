mock_provider "aws" {}

variables {
  name        = "nightshift-dev"
  tags        = { project = "nightshift", environment = "dev" }
  monthly_usd = 100
  anomaly_usd = 10
  emails      = ["nightshift@example.com"]
}

run "everybody_is_told_at_half_and_when_it_is_spent_or_will_be" {
  command = plan

  module {
    source = "./modules/budget"
  }

  assert {
    condition     = length(aws_budgets_budget.this.notification) == 3
    error_message = "three notifications"
  }
}
