variable "cluster" {
  description = "Full name of the cluster."
  type        = string
}

variable "cluster_zones" {
  description = "Zones of the cluster's nodes."
  type        = list(string)
}

variable "service_account" {
  description = "The account nodes act as."
  type        = string
}

variable "key" {
  description = "Key that encrypts boot disks."
  type        = string
}

variable "labels" {
  description = "Labels on the nodes' machines."
  type        = map(string)
}

variable "pools" {
  description = "Pools by name. Each scales from no node to max_nodes, counted over its zones."
  type = map(object({
    accelerator   = string
    gpus          = number
    max_nodes     = number
    capacity      = string
    zones         = list(string)
    reservation   = optional(string, "")
    fabric        = optional(string, "standard")
    max_run_hours = optional(number, 24)
    sharing       = optional(string, "none")
  }))

  validation {
    condition     = alltrue([for name, pool in var.pools : can(regex("^[a-z][a-z0-9-]{0,38}[a-z0-9]$", name)) && name != "general"])
    error_message = "The name of a pool is 2 to 40 lowercase letters, digits and hyphens, beginning with a letter, and not general, which is the one of light steps."
  }
  validation {
    condition     = alltrue([for pool in var.pools : contains(keys(local.machines), "${pool.accelerator} x${pool.gpus}")])
    error_message = "accelerator and gpus of a pool are one of: ${join(", ", keys(local.machines))}."
  }
  validation {
    condition     = alltrue([for pool in var.pools : pool.max_nodes >= 1 && pool.max_nodes <= 1000])
    error_message = "max_nodes of a pool is 1 to 1000."
  }
  validation {
    condition     = alltrue([for pool in var.pools : contains(["on_demand", "spot", "flex_start", "reserved"], pool.capacity)])
    error_message = "capacity of a pool is on_demand, spot, flex_start or reserved."
  }
  validation {
    condition     = alltrue([for pool in var.pools : contains(["standard", "compact", "rdma"], pool.fabric)])
    error_message = "fabric of a pool is standard, compact (nodes close together) or rdma (GPUDirect RDMA)."
  }
  validation {
    condition     = alltrue([for pool in var.pools : contains(["none", "time-slicing", "mig"], pool.sharing)])
    error_message = "sharing of a pool is none, time-slicing (four pods take turns) or mig (seven partitions of a GPU)."
  }
  validation {
    condition     = alltrue([for pool in var.pools : pool.max_run_hours >= 1 && pool.max_run_hours <= 168])
    error_message = "max_run_hours of a pool is 1 to 168: a flex-start node lives seven days at most."
  }
}
