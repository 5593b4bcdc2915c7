variable "name" {
  description = "Name of the budget."
  type        = string

  validation {
    condition     = length(var.name) >= 1 && length(var.name) <= 60
    error_message = "name has 1 to 60 characters."
  }
}

variable "project_id" {
  description = "Project whose costs count."
  type        = string
}

variable "billing_account" {
  description = "Billing account of the project."
  type        = string
}

variable "amount" {
  description = "Amount of a month, in the billing account's currency."
  type        = number

  validation {
    condition     = var.amount >= 1 && floor(var.amount) == var.amount
    error_message = "amount is a whole number, 1 or more."
  }
}

variable "emails" {
  description = "Who is written to."
  type        = set(string)

  validation {
    condition     = length(var.emails) >= 1 && length(var.emails) <= 5
    error_message = "emails are one to five addresses: a budget takes five channels."
  }
  validation {
    condition     = alltrue([for email in var.emails : can(regex("^[^@ ]+@[^@ ]+\\.[^@ ]+$", email))])
    error_message = "emails are addresses like name@example.com."
  }
}
