variable "name" {
  description = "What the names of buckets, key and repository begin with."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}[a-z0-9]$", var.name))
    error_message = "name is lowercase letters, digits and hyphens, beginning with a letter; a bucket's has room for 32."
  }
}

variable "project_id" {
  description = "Project, which the names of the buckets begin with: they are unique in the world."
  type        = string
}

variable "region" {
  description = "Region of everything here; the key has to lie where what it encrypts does."
  type        = string
}

variable "disposable" {
  description = "Whether a destroy may take the objects in the buckets with it."
  type        = bool
}

variable "image_readers" {
  description = "Service accounts of other projects' nodes, which pull the images."
  type        = set(string)
}

variable "bucket_uses" {
  description = "One bucket for each use."
  type        = set(string)

  validation {
    condition     = alltrue([for use in var.bucket_uses : can(regex("^[a-z][a-z0-9-]{0,11}$", use))])
    error_message = "bucket_uses are at most 12 lowercase letters, digits and hyphens each: they end the names of buckets."
  }
}

variable "lustre" {
  description = "Whether there is a Lustre file system, whose service agent uses the key too."
  type        = bool
}
