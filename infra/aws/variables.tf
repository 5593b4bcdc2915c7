variable "name" {
  description = "Name of the project: the first part of every resource's name, and the tag `project`"
  type        = string
  default     = "nightshift"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,20}$", var.name))
    error_message = "name must be 3 to 21 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "environment" {
  description = "Which of the environments this is: the second part of every name, and the tag `environment`"
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9]{1,7}$", var.environment))
    error_message = "environment must be 2 to 8 lower-case letters and digits, beginning with a letter."
  }
}

variable "region" {
  description = "Region of everything"
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region must be the name of an AWS region, such as us-east-1."
  }
}

variable "zones" {
  description = "Availability zones with a subnet; Lustre, general nodes and pools that name no zones are in the first, spot pools in all"
  type        = list(string)

  validation {
    condition     = length(var.zones) >= 2 && alltrue([for zone in var.zones : startswith(zone, var.region)])
    error_message = "zones must be two or more zones of the region: EKS wants subnets in two."
  }
}

variable "cidr" {
  description = "IPv4 range of the network"
  type        = string
  default     = "10.0.0.0/16"

  validation {
    condition     = can(cidrhost(var.cidr, 0)) && contains(["16", "17", "18"], try(split("/", var.cidr)[1], ""))
    error_message = "cidr must be an IPv4 range of /16 to /18: every pod has an address of it, and AWS gives a network no more."
  }
}

variable "nat_per_zone" {
  description = "A NAT gateway in every zone, so that one zone's failure cuts off no other; one in all if false"
  type        = bool
}

variable "public_nodes" {
  description = "Nodes have public addresses, at which nobody can call them, in the place of NAT gateways: cheap for few nodes"
  type        = bool
  default     = false
}

variable "interface_endpoints" {
  description = "AWS services reached without the NAT gateway, each paid for by the hour and zone; S3 always is, and free"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for service in var.interface_endpoints : can(regex("^[a-z][a-z0-9.-]+$", service))])
    error_message = "interface_endpoints must be the last parts of service names, such as ecr.api."
  }
}

variable "kubernetes_version" {
  description = "Minor version of Kubernetes"
  type        = string

  validation {
    condition     = contains(["1.35", "1.36"], var.kubernetes_version)
    error_message = "kubernetes_version must be one that EKS supported when this was written: 1.35 or 1.36."
  }
}

variable "api_cidrs" {
  description = "IPv4 ranges from which the Kubernetes API is reached over the Internet; none means only from within the network"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for range in var.api_cidrs : can(cidrhost(range, 0)) && try(tonumber(split("/", range)[1]), 0) >= 16])
    error_message = "api_cidrs must be IPv4 ranges of /16 or smaller: yours, and not the whole Internet."
  }
}

variable "administrators" {
  description = "ARNs of the IAM roles that administer the cluster"
  type        = set(string)

  validation {
    condition     = length(var.administrators) > 0 && alltrue([for arn in var.administrators : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:role/", arn))])
    error_message = "administrators must name at least one IAM role by its ARN: nobody else gets into the cluster."
  }
}

variable "people" {
  description = "ARNs of the IAM roles of those who operate the cluster's namespaces, and of those who look"
  type = object({
    operators = optional(set(string), [])
    readers   = optional(set(string), [])
  })
  default = {}

  validation {
    condition     = alltrue([for arn in setunion(var.people.operators, var.people.readers) : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:role/", arn))])
    error_message = "people must be IAM roles by their ARNs."
  }

  validation {
    condition     = length(setintersection(var.people.operators, var.people.readers)) == 0 && length(setintersection(setunion(var.people.operators, var.people.readers), var.administrators)) == 0
    error_message = "people must name a role once, and no administrator: a role has one access entry."
  }
}

variable "sources" {
  description = "Buckets other than ours that steps read raw data from: by name, with the key they are encrypted with if it is not S3's own"
  type = map(object({
    kms_key_arn = optional(string)
  }))
  default = {}

  validation {
    condition     = alltrue([for bucket in keys(var.sources) : can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", bucket))])
    error_message = "sources must be names of buckets, without s3:// and without a folder."
  }
}

variable "image_readers" {
  description = "Ids of other accounts whose nodes pull the images: prod runs those that dev has tried"
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for account in var.image_readers : can(regex("^[0-9]{12}$", account))])
    error_message = "image_readers must be ids of accounts, of 12 digits each."
  }
}

variable "deletion_protection" {
  description = "Refuse to delete the cluster and a bucket or repository that is not empty"
  type        = bool
}

variable "general_pool" {
  description = "Nodes for light steps and for what the cluster runs beside the pipelines; on spot all of it ends and starts anew now and then"
  type = object({
    instance_types = optional(list(string), ["m7i.xlarge", "m6i.xlarge"])
    capacity       = optional(string, "on_demand")
    min            = optional(number, 1)
    max            = optional(number, 6)
    disk_gib       = optional(number, 100)
  })
  default = {}

  validation {
    condition     = var.general_pool.min >= 1 && var.general_pool.max >= var.general_pool.min
    error_message = "general_pool must have min of 1 or more, since the autoscaler runs there, and max of min or more."
  }
}

variable "gpu_pools" {
  description = "Pools of nodes with NVIDIA GPUs by name; each is empty while nothing asks for it"
  type = map(object({
    instance_types  = list(string)
    capacity        = string
    max             = number
    min             = optional(number, 0)
    zones           = optional(list(string))
    disk_gib        = optional(number, 200)
    fabric          = optional(string, "none")
    placement_group = optional(bool, false)
    reservation_id  = optional(string)
    sharing         = optional(string, "none")
  }))

  validation {
    condition     = alltrue([for pool in values(var.gpu_pools) : pool.min == 0 && pool.max >= 1])
    error_message = "gpu_pools must have min of 0, since an idle GPU costs as much as a busy one, and max of 1 or more."
  }

  validation {
    condition     = alltrue([for name, pool in var.gpu_pools : strcontains(name, "spot") == (pool.capacity == "spot")])
    error_message = "gpu_pools must name spot pools, and no others, with the word spot: by it the autoscaler prefers them."
  }

  validation {
    condition     = !contains(keys(var.gpu_pools), "general")
    error_message = "gpu_pools may name no pool general: that is the one of light steps."
  }

  validation {
    condition     = alltrue([for pool in values(var.gpu_pools) : pool.zones == null ? true : length(setsubtract(pool.zones, var.zones)) == 0])
    error_message = "gpu_pools may name only zones of the variable zones."
  }
}

variable "karpenter" {
  description = "Leave the nodes of GPU steps to Karpenter: of gpu_pools those with fabric efa are made"
  type        = bool
  default     = false
}

variable "gpu_sharing" {
  description = "How small models share a GPU, on nodes of the pool shared: none, or time-slicing among four pods"
  type        = string
  default     = "none"

  validation {
    condition     = contains(["none", "time-slicing"], var.gpu_sharing)
    error_message = "gpu_sharing must be none or time-slicing: partitions (MIG) ask for NVIDIA's GPU operator on EKS, which is not installed."
  }

  validation {
    condition     = var.gpu_sharing == "none" || !contains(keys(var.gpu_pools), "shared")
    error_message = "gpu_pools may name no pool shared where gpu_sharing makes one."
  }
}

variable "node_repair" {
  description = "Let EKS replace nodes whose GPU, kernel, network or disk its monitoring agent reports"
  type        = bool
  default     = false
}

variable "preload_images" {
  description = "Pull and unpack images faster on GPU nodes, onto their instance store"
  type        = bool
  default     = false
}

variable "lustre" {
  description = "The FSx for Lustre file system: capacity in GiB, throughput in MB/s for each TiB, EFA; null for state in the bucket"
  type = object({
    capacity_gib = optional(number, 1200)
    throughput   = optional(number, 125)
    efa          = optional(bool, false)
  })
  default = {}

  validation {
    condition     = !try(var.lustre.efa, false) || anytrue([for pool in values(var.gpu_pools) : pool.fabric == "efa"])
    error_message = "lustre.efa asks for a pool in gpu_pools with fabric efa: no other node would use it."
  }
}

variable "log_days" {
  description = "Days for which logs of the control plane and of network flows are kept"
  type        = number
  default     = 365

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_days)
    error_message = "log_days must be a retention that CloudWatch Logs knows, such as 30, 90 or 365."
  }
}

variable "protected_data" {
  description = "Data of persons: disks with the environment's key, AWS called from within the network, and reads of objects logged; for an account of its own"
  type        = bool
  default     = false

  validation {
    condition     = !var.protected_data || (!var.public_nodes && length(var.api_cidrs) == 0)
    error_message = "protected_data has no public address: public_nodes must be false, and api_cidrs empty."
  }
}

variable "access_log_days" {
  description = "Days for which nobody can delete a log of who read protected data; by default six years, as 45 CFR 164.316(b)(2)(i) wants it of documents"
  type        = number
  default     = 2192
}

variable "budget" {
  description = "Monthly limit in USD, anomaly in USD from which on to notify (null: of none), and who is notified"
  type = object({
    monthly_usd = number
    anomaly_usd = optional(number)
    emails      = list(string)
  })
}

variable "tags" {
  description = "More tags for everything, beside project and environment"
  type        = map(string)
  default     = {}

  validation {
    condition     = length(setintersection(keys(var.tags), ["project", "environment"])) == 0
    error_message = "tags must leave project and environment alone: the budget is found by them."
  }
}
