variable "name" {
  description = "What the names of log buckets and sinks begin with."
  type        = string
}

variable "project_id" {
  description = "Project whose logs they are."
  type        = string
}

variable "region" {
  description = "Region of the logs and of their key."
  type        = string
}

variable "days" {
  description = "Days for which nobody can delete who read an object."
  type        = number

  validation {
    condition     = var.days >= 1 && var.days <= 3650
    error_message = "days is 1 to 3650: what Cloud Logging keeps."
  }
}
