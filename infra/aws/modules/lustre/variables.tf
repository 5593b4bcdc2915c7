variable "name" {
  description = "Name of the file system"
  type        = string
}

variable "vpc_id" {
  description = "Id of the network"
  type        = string
}

variable "subnet_id" {
  description = "The one subnet the file system lies in"
  type        = string
}

variable "client_group_id" {
  description = "Id of the security group of the nodes that mount it"
  type        = string
}

variable "efa_security_group_id" {
  description = "Id of the security group of whatever speaks EFA"
  type        = string
}

variable "bucket" {
  description = "Name of the bucket it is linked with"
  type        = string
}

variable "kms_key_arn" {
  description = "Key of its disks"
  type        = string
}

variable "capacity_gib" {
  description = "Capacity in GiB: 1200, 2400, or a multiple of 2400"
  type        = number

  validation {
    condition     = var.capacity_gib == 1200 || (var.capacity_gib >= 2400 && var.capacity_gib % 2400 == 0)
    error_message = "capacity_gib must be 1200 or a multiple of 2400."
  }
}

variable "throughput" {
  description = "Throughput in MB/s for each TiB"
  type        = number

  validation {
    condition     = contains([125, 250, 500, 1000], var.throughput)
    error_message = "throughput must be 125, 250, 500 or 1000 MB/s for each TiB."
  }
}

variable "efa" {
  description = "Speak EFA with nodes that do; cannot be changed afterwards"
  type        = bool
}
