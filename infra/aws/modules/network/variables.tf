variable "name" {
  description = "Name of the network, and of the cluster whose nodes are in it"
  type        = string
}

variable "region" {
  description = "Region of the endpoints"
  type        = string
}

variable "zones" {
  description = "Availability zones with a subnet"
  type        = list(string)

  validation {
    condition     = length(var.zones) <= 7 && length(distinct(var.zones)) == length(var.zones)
    error_message = "zones must be 7 at most, each named once: the range is divided among 8."
  }
}

variable "cidr" {
  description = "IPv4 range of the network"
  type        = string
}

variable "nat_per_zone" {
  description = "A NAT gateway in every zone; one in all if false"
  type        = bool
}

variable "public_nodes" {
  description = "Nodes have public addresses in the place of NAT gateways"
  type        = bool
}

variable "interface_endpoints" {
  description = "AWS services reached without the NAT gateway"
  type        = set(string)
}

variable "log_days" {
  description = "Days for which flow logs are kept"
  type        = number
}

variable "kms_key_arn" {
  description = "Key of the flow logs"
  type        = string
}
