variable "name" {
  description = "Name of the cluster."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,22}[a-z0-9]$", var.name))
    error_message = "name is at most 24 lowercase letters, digits and hyphens: the nodes' service account adds -nodes to it."
  }
}

variable "project_id" {
  description = "Project of the cluster."
  type        = string
}

variable "region" {
  description = "Region of the control plane."
  type        = string
}

variable "zones" {
  description = "Zones of the nodes."
  type        = list(string)
}

variable "network" {
  description = "Full name of the network."
  type        = string
}

variable "subnetwork" {
  description = "Full name of the nodes' subnetwork."
  type        = string
}

variable "pod_range" {
  description = "Name of the secondary range of the pods."
  type        = string
}

variable "service_range" {
  description = "Name of the secondary range of the services."
  type        = string
}

variable "kubernetes_version" {
  description = "Minor version the control plane starts with."
  type        = string
}

variable "release_channel" {
  description = "GKE's release channel."
  type        = string
}

variable "external" {
  description = "Whether the control plane's DNS name answers from outside the network."
  type        = bool
}

variable "control_plane_range" {
  description = "Addresses of the control plane, a /28."
  type        = string
}

variable "people_domain" {
  description = "Domain of the groups of people; none gets in if null."
  type        = string
}

variable "deletion_protection" {
  description = "Whether Terraform refuses to destroy the cluster."
  type        = bool
}

variable "legacy_lustre_port" {
  description = "Whether the Lustre driver speaks port 6988 instead of 988."
  type        = bool
}

variable "general_pool" {
  description = "Nodes that run all but GPU steps: machine type, how many there are in all zones together, whether they may be taken away, and the size of their disks."
  type = object({
    machine_type = string
    min_nodes    = number
    max_nodes    = number
    spot         = bool
    disk_gib     = number
  })
}

variable "key" {
  description = "Key that encrypts secrets and disks."
  type        = string
}

variable "repository" {
  description = "The repository nodes pull images from: its location and id."
  type = object({
    location = string
    id       = string
  })
}

variable "labels" {
  description = "Labels on the cluster and its nodes' machines, which the provider's defaults do not reach."
  type        = map(string)
}

variable "compute_class" {
  description = "Whether the ComputeClass default says in which order node pools are tried."
  type        = bool
}
