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

run "a_member_account_of_an_organization_has_no_monitor_of_a_tag" {
  command = plan

  module {
    source = "./modules/budget"
  }

  variables {
    anomaly_usd = null
  }

  assert {
    condition     = length(aws_ce_anomaly_monitor.this) + length(aws_ce_anomaly_subscription.this) == 0
    error_message = "no monitor, and no subscription to one"
  }
}
