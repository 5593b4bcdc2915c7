variable "name" {
  description = "Name of the budget"
  type        = string
}

variable "tags" {
  description = "Tags by which costs are found; the account has to have activated them for cost allocation"
  type        = object({ project = string, environment = string })
}

variable "monthly_usd" {
  description = "Limit for a month in USD"
  type        = number

  validation {
    condition     = var.monthly_usd > 0
    error_message = "monthly_usd must be more than 0."
  }
}

variable "anomaly_usd" {
  description = "USD above the expected from which on an anomaly is reported; null for no reports"
  type        = number
  default     = null

  validation {
    condition     = var.anomaly_usd == null ? true : var.anomaly_usd > 0
    error_message = "anomaly_usd must be more than 0."
  }
}

variable "emails" {
  description = "E-mail addresses that are notified"
  type        = list(string)

  validation {
    condition     = length(var.emails) > 0 && alltrue([for email in var.emails : can(regex("^[^@ ]+@[^@ ]+$", email))])
    error_message = "emails must name at least one e-mail address: a budget that tells nobody is none."
  }
}
