variable "name" {
  description = "Name of the pool"
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}$", var.name))
    error_message = "name of a pool must be 2 to 31 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "kind" {
  description = "Value of the label `nightshift/pool`, by which pipelines choose: general or gpu"
  type        = string

  validation {
    condition     = contains(["general", "gpu"], var.kind)
    error_message = "kind must be general or gpu: pipelines/environments.py knows no other."
  }
}

variable "cluster_name" {
  description = "Name of the cluster"
  type        = string
}

variable "kubernetes_version" {
  description = "Minor version of the nodes: the cluster's, so that they follow it"
  type        = string
}

variable "node_role_arn" {
  description = "ARN of the nodes' role"
  type        = string
}

variable "security_group_id" {
  description = "Id of the cluster's security group"
  type        = string
}

variable "efa_security_group_id" {
  description = "Id of the security group of whatever speaks EFA"
  type        = string
  default     = null
}

variable "subnet_ids" {
  description = "Subnets of the nodes"
  type        = list(string)
}

variable "instance_types" {
  description = "Instance types, any of which may come; several make spot likelier"
  type        = list(string)

  validation {
    condition     = length(var.instance_types) > 0 && alltrue([for type in var.instance_types : can(regex("^[a-z0-9-]+\\.[a-z0-9]+$", type))])
    error_message = "instance_types must name EC2 instance types, such as g6.2xlarge."
  }
}

variable "capacity" {
  description = "How it is paid for: on_demand, spot, reserved (a capacity reservation) or capacity_block (one for some days)"
  type        = string

  validation {
    condition     = contains(["on_demand", "spot", "reserved", "capacity_block"], var.capacity)
    error_message = "capacity must be on_demand, spot, reserved or capacity_block."
  }
}

variable "reservation_id" {
  description = "Id of the capacity reservation or block"
  type        = string
  default     = null

  validation {
    condition     = var.reservation_id == null || can(regex("^cr-[0-9a-f]{8,17}$", var.reservation_id))
    error_message = "reservation_id must be the id of a capacity reservation: cr- and hexadecimal digits."
  }
}

variable "min" {
  description = "Nodes that are always there"
  type        = number
}

variable "max" {
  description = "Nodes at most"
  type        = number
}

variable "disk_gib" {
  description = "Size of the root volume"
  type        = number

  validation {
    condition     = var.disk_gib >= 50 && var.disk_gib <= 16384
    error_message = "disk_gib must lie between 50, what images need, and 16384, what gp3 offers."
  }
}

variable "fabric" {
  description = "Network between nodes: none, or efa with one interface for each network card"
  type        = string
  default     = "none"

  validation {
    condition     = contains(["none", "efa"], var.fabric)
    error_message = "fabric must be none or efa."
  }
}

variable "placement_group" {
  description = "Put the nodes close to each other"
  type        = bool
  default     = false
}

variable "sharing" {
  description = "How small models share a GPU: none, or time-slicing among four pods; no step lands on nodes that are shared"
  type        = string
  default     = "none"

  validation {
    condition     = contains(["none", "time-slicing"], var.sharing)
    error_message = "sharing must be none or time-slicing: partitions (MIG) ask for NVIDIA's GPU operator on EKS, which is not installed."
  }
}

variable "node_repair" {
  description = "Let EKS replace nodes whose GPU, kernel, network or disk the node monitoring agent reports"
  type        = bool
  default     = false
}

variable "preload_images" {
  description = "Pull and unpack an image's layers side by side (SOCI), onto the instance store of GPU nodes"
  type        = bool
  default     = false
}

variable "tags" {
  description = "Tags of instances, disks and network interfaces, by which the budget finds them"
  type        = map(string)
}
