variable "name" {
  description = "Name of the instance."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,61}[a-z0-9]$", var.name))
    error_message = "name is lowercase letters, digits and hyphens, beginning with a letter."
  }
}

variable "zone" {
  description = "Zone of the instance: that of most GPUs."
  type        = string
}

variable "throughput" {
  description = "Tier, in MB/s for each TiB."
  type        = number

  validation {
    condition     = contains(keys(local.tiers), tostring(var.throughput))
    error_message = "throughput is 125, 250, 500 or 1000 MB/s for each TiB."
  }
}

variable "capacity_gib" {
  description = "Size in GiB. The tier sets the smallest, the largest and the step between them."
  type        = number
}

variable "legacy_port" {
  description = "Whether the instance speaks port 6988 (gke_support_enabled) instead of 988."
  type        = bool
}

variable "driver_legacy_port" {
  description = "Whether the cluster's Lustre driver speaks port 6988 instead of 988."
  type        = bool
}

variable "network" {
  description = "Full name of the network the clients lie in."
  type        = string
}

variable "servers" {
  description = "Addresses of the servers, as a CIDR block."
  type        = string
}

variable "clients" {
  description = "Service account of the nodes that mount it."
  type        = string
}

variable "key" {
  description = "Key that encrypts the files."
  type        = string
}

variable "service_agent" {
  description = "Who copies between Lustre and the bucket, as a member of IAM policies."
  type        = string
}

variable "bucket" {
  description = "Bucket that files are imported from and exported to."
  type        = string
}
