locals {
  # one while there is time, one when it is spent, one when it will be
  alerts = {
    half     = { threshold = 50, type = "ACTUAL" }
    spent    = { threshold = 100, type = "ACTUAL" }
    forecast = { threshold = 100, type = "FORECASTED" }
  }
}

resource "aws_budgets_budget" "this" {
  name         = var.name
  budget_type  = "COST"
  time_unit    = "MONTHLY"
  limit_amount = tostring(var.monthly_usd)
  limit_unit   = "USD"

  filter_expression {
    dynamic "and" {
      for_each = var.tags

      content {
        tags {
          key    = and.key
          values = [and.value]
        }
      }
    }
  }

  dynamic "notification" {
    for_each = local.alerts

    content {
      comparison_operator        = "GREATER_THAN"
      threshold                  = notification.value.threshold
      threshold_type             = "PERCENTAGE"
      notification_type          = notification.value.type
      subscriber_email_addresses = var.emails
    }
  }
}

# By a tag, since an account may have one monitor of services only, and by one, since a monitor takes no more. A member
# account of an organization may have none by a tag. AWS answers with every part it was not given as null: without these
# each plan would recreate it and lose what it has learned.
resource "aws_ce_anomaly_monitor" "this" {
  count = var.anomaly_usd == null ? 0 : 1

  name         = var.name
  monitor_type = "CUSTOM"

  monitor_specification = jsonencode({
    And            = null
    CostCategories = null
    Dimensions     = null
    Not            = null
    Or             = null
    Tags           = { Key = "project", Values = [var.tags.project], MatchOptions = null }
  })
}

moved {
  from = aws_ce_anomaly_monitor.this
  to   = aws_ce_anomaly_monitor.this[0]
}

resource "aws_ce_anomaly_subscription" "this" {
  count = var.anomaly_usd == null ? 0 : 1

  name             = var.name
  frequency        = "DAILY"
  monitor_arn_list = [aws_ce_anomaly_monitor.this[0].arn]

  dynamic "subscriber" {
    for_each = toset(var.emails)

    content {
      type    = "EMAIL"
      address = subscriber.value
    }
  }

  threshold_expression {
    dimension {
      key           = "ANOMALY_TOTAL_IMPACT_ABSOLUTE"
      match_options = ["GREATER_THAN_OR_EQUAL"]
      values        = [tostring(var.anomaly_usd)]
    }
  }
}

moved {
  from = aws_ce_anomaly_subscription.this
  to   = aws_ce_anomaly_subscription.this[0]
}
