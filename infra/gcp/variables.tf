variable "project_id" {
  description = "Project that everything lies in. It has to exist and to be linked to the billing account."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id is 6 to 30 lowercase letters, digits and hyphens, beginning with a letter."
  }
}

variable "billing_account" {
  description = "Billing account the budget watches, as in 012345-6789AB-CDEF01."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$", var.billing_account))
    error_message = "billing_account is three groups of six hexadecimal capitals; list yours with: gcloud billing accounts list"
  }
}

variable "name" {
  description = "What the names of all resources begin with, followed by the environment."
  type        = string
  default     = "nightshift"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,10}[a-z0-9]$", var.name))
    error_message = "name is 3 to 12 lowercase letters, digits and hyphens, beginning with a letter: names of service accounts are built from it."
  }
}

variable "environment" {
  description = "What the names of all resources end with, and a label on them."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9]{1,7}$", var.environment))
    error_message = "environment is 2 to 8 lowercase letters and digits, beginning with a letter: names of service accounts are built from it."
  }
}

variable "region" {
  description = "Region of the cluster, the buckets and the key."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region is a name like europe-west4; list them with: gcloud compute regions list"
  }
}

variable "zones" {
  description = "Zones of the region that nodes may run in."
  type        = list(string)

  validation {
    condition     = length(var.zones) > 0 && length(distinct(var.zones)) == length(var.zones)
    error_message = "zones names one zone at least, each once."
  }
  validation {
    condition     = alltrue([for zone in var.zones : startswith(zone, "${var.region}-")])
    error_message = "zones lie in the region: a zone is its region, a hyphen and a letter."
  }
}

variable "kubernetes_version" {
  description = "Minor version the control plane starts with; the release channel upgrades it."
  type        = string
  default     = "1.35"

  validation {
    condition     = contains(["1.35", "1.36"], var.kubernetes_version)
    error_message = "kubernetes_version is 1.35 or 1.36: what the channels REGULAR and STABLE offered in autumn 2026."
  }
}

variable "release_channel" {
  description = "GKE's release channel."
  type        = string
  default     = "REGULAR"

  validation {
    condition     = contains(["REGULAR", "STABLE"], var.release_channel)
    error_message = "release_channel is REGULAR or STABLE: RAPID has no service level, and without a channel nothing is upgraded."
  }
}

variable "external_control_plane" {
  description = "Whether the control plane's DNS name, which asks IAM, answers from outside the network."
  type        = bool
  default     = false
}

variable "people_domain" {
  description = "Domain of the Google groups nightshift-operators and nightshift-readers, who get into the cluster as members of gke-security-groups; nobody but administrators of the project does if null."
  type        = string
  default     = null

  validation {
    condition     = var.people_domain == null || can(regex("^[a-z0-9-]+(\\.[a-z0-9-]+)+$", var.people_domain))
    error_message = "people_domain is a domain such as example.com, without an @."
  }
}

variable "sources" {
  description = "Buckets other than ours that steps read raw data from, by name."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for bucket in var.sources : can(regex("^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$", bucket))])
    error_message = "sources are names of buckets, without gs:// and without a folder."
  }
}

variable "image_readers" {
  description = "Service accounts of other projects' nodes, which pull the images: prod runs those that dev has tried."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for account in var.image_readers : can(regex("^[a-z0-9-]+@[a-z0-9-]+\\.iam\\.gserviceaccount\\.com$", account))])
    error_message = "image_readers are service accounts by their addresses, which end with .iam.gserviceaccount.com."
  }
}

variable "deletion_protection" {
  description = "Whether a destroy stops at the cluster and at buckets that are not empty."
  type        = bool
  default     = true
}

variable "general_pool" {
  description = "Nodes of the light steps, Kubeflow, MLflow and Airflow: machine type, how many there are in all zones together, and the size of their disks; on spot all of it ends and starts anew now and then."
  type = object({
    machine_type = string
    min_nodes    = number
    max_nodes    = number
    spot         = optional(bool, false)
    disk_gib     = optional(number, 100)
  })

  validation {
    condition     = var.general_pool.min_nodes >= 1 && var.general_pool.max_nodes >= var.general_pool.min_nodes
    error_message = "general_pool needs a node for the cluster's own pods: 1 <= min_nodes <= max_nodes."
  }
}

variable "gpu_pools" {
  description = "GPU node pools by name. Each scales from no node to max_nodes, counted over its zones, by default all."
  type = map(object({
    accelerator   = string
    gpus          = number
    max_nodes     = number
    capacity      = string
    zones         = optional(list(string))
    reservation   = optional(string, "")
    fabric        = optional(string, "standard")
    max_run_hours = optional(number, 24)
    sharing       = optional(string, "none")
  }))

  validation {
    condition     = length(var.gpu_pools) > 0
    error_message = "gpu_pools has one pool at least: features, training and profiling run on GPUs."
  }
}

variable "compute_class" {
  description = "Try node pools in the order of the ComputeClass default, instead of the autoscaler's."
  type        = bool
  default     = false
}

variable "gpu_sharing" {
  description = "How small models share a GPU, on nodes of the pool shared: none, time-slicing (four take turns) or mig (seven partitions)."
  type        = string
  default     = "none"

  validation {
    condition     = contains(["none", "time-slicing", "mig"], var.gpu_sharing)
    error_message = "gpu_sharing is none, time-slicing or mig."
  }

  validation {
    condition     = var.gpu_sharing == "none" || !contains(keys(var.gpu_pools), "shared")
    error_message = "gpu_pools names no pool shared where gpu_sharing makes one."
  }
}

variable "filestore" {
  description = "A shared file system for little data, instead of Lustre: its zone, by default the first, and its size in GiB."
  type = object({
    zone         = optional(string)
    capacity_gib = optional(number, 1024)
  })
  default = null

  validation {
    condition     = var.filestore == null ? true : contains(var.zones, coalesce(var.filestore.zone, var.zones[0]))
    error_message = "filestore.zone is one of the zones of the variable zones, beside the nodes."
  }

  validation {
    condition     = var.filestore == null || var.lustre == null
    error_message = "filestore and lustre are two ways to the one file system that steps share: give one of them, or none for state in the lake's bucket."
  }
}

variable "lustre" {
  description = "The Lustre file system, for much data: its zone, by default the first, its size in GiB, its throughput in MB/s for each TiB, and whether it speaks GKE's legacy port 6988."
  type = object({
    zone         = optional(string)
    capacity_gib = number
    throughput   = number
    legacy_port  = optional(bool, false)
  })
  default = null

  validation {
    condition     = var.lustre == null ? true : contains(var.zones, coalesce(var.lustre.zone, var.zones[0]))
    error_message = "lustre.zone is one of the zones of the variable zones, beside the nodes."
  }
}

variable "protected_data" {
  description = "Data of persons: no way in from outside the network, logs with a key of ours, and reads of objects logged; for a project of its own."
  type        = bool
  default     = false

  validation {
    condition     = !var.protected_data || var.filestore == null
    error_message = "protected_data is encrypted with a key of ours, which Filestore's tier BASIC_HDD does not take: give lustre, or neither."
  }
}

variable "access_log_days" {
  description = "Days for which nobody can delete a log of who read protected data; by default six years, as 45 CFR 164.316(b)(2)(i) wants it of documents."
  type        = number
  default     = 2192
}

variable "budget" {
  description = "Monthly amount in the billing account's currency, and who is written to when it is nearly spent."
  type = object({
    amount = number
    emails = list(string)
  })
}

variable "labels" {
  description = "Labels on everything, beside application, environment and managed-by; cost reports group by them."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for key, value in var.labels : can(regex("^[a-z][a-z0-9_-]{0,62}$", key)) && can(regex("^[a-z0-9_-]{0,63}$", value))])
    error_message = "labels are lowercase letters, digits, _ and -, at most 63 of them; a key begins with a letter."
  }
}
