variable "name" {
  description = "Name of the trail, and first part of its bucket's"
  type        = string
}

variable "region" {
  description = "Region of the trail"
  type        = string
}

variable "account_id" {
  description = "Account of the trail, which makes its bucket's name one of a kind"
  type        = string
}

variable "bucket_arns" {
  description = "ARNs of the buckets whose objects are watched"
  type        = list(string)
}

variable "days" {
  description = "Days for which nobody can delete a log"
  type        = number

  validation {
    condition     = var.days >= 1 && var.days <= 36500
    error_message = "days must lie between 1 and 36500, which S3 Object Lock knows."
  }
}
