variable "name" {
  description = "Name of the instance."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,61}[a-z0-9]$", var.name))
    error_message = "name is lowercase letters, digits and hyphens, beginning with a letter."
  }
}

variable "zone" {
  description = "Zone of the instance: that of most nodes."
  type        = string
}

variable "capacity_gib" {
  description = "Size in GiB."
  type        = number

  validation {
    condition     = var.capacity_gib >= 1024 && var.capacity_gib <= 65433
    error_message = "capacity_gib is 1024 to 65433: what Filestore's tier BASIC_HDD has."
  }
}

variable "network" {
  description = "Full name of the network the clients lie in."
  type        = string
}

variable "labels" {
  description = "Labels of the instance."
  type        = map(string)
}
