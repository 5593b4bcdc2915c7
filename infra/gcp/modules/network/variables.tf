variable "name" {
  description = "What the names of the network's parts begin with."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,50}[a-z0-9]$", var.name))
    error_message = "name is lowercase letters, digits and hyphens, beginning with a letter."
  }
}

variable "region" {
  description = "Region of the subnetwork and its NAT."
  type        = string
}

variable "node_range" {
  description = "Addresses of nodes."
  type        = string
  default     = "10.0.0.0/20"

  validation {
    condition     = can(cidrhost(var.node_range, 0))
    error_message = "node_range is a CIDR block, such as 10.0.0.0/20."
  }
}

variable "pod_range" {
  description = "Addresses of pods: GKE takes a /24 of it for each node."
  type        = string
  default     = "10.4.0.0/14"

  validation {
    condition     = can(cidrhost(var.pod_range, 0)) && try(tonumber(split("/", var.pod_range)[1]), 32) <= 20
    error_message = "pod_range is a CIDR block of /20 or larger: each node takes a /24 of it."
  }
}

variable "service_range" {
  description = "Addresses of Kubernetes services."
  type        = string
  default     = "10.8.0.0/20"

  validation {
    condition     = can(cidrhost(var.service_range, 0))
    error_message = "service_range is a CIDR block, such as 10.8.0.0/20."
  }
}

variable "control_plane_range" {
  description = "Addresses of the control plane, apart from all others."
  type        = string
  default     = "172.16.0.0/28"

  validation {
    condition     = can(cidrhost(var.control_plane_range, 0)) && endswith(var.control_plane_range, "/28")
    error_message = "control_plane_range is a CIDR block of /28: GKE takes no other."
  }
}

variable "service_peering_prefix" {
  description = "Length of the prefix kept for Google's own networks, in which Lustre's servers lie."
  type        = number
  default     = 20

  validation {
    condition     = var.service_peering_prefix >= 16 && var.service_peering_prefix <= 23
    error_message = "service_peering_prefix is 16 to 23: a Lustre instance needs a /23 or larger for itself."
  }
}
