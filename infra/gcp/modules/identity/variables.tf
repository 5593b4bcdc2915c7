variable "name" {
  description = "What the name of the service account of Vertex AI's endpoints begins with."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,19}[a-z0-9]$", var.name))
    error_message = "name is at most 21 lowercase letters, digits and hyphens: service accounts have 30."
  }
}

variable "project_number" {
  description = "Number of the project, by which members of IAM policies name it."
  type        = string
}

variable "workload_pool" {
  description = "What Kubernetes service accounts are members of."
  type        = string
}

variable "buckets" {
  description = "Names of the buckets, by use."
  type        = map(string)
}

variable "repository" {
  description = "The repository of images: its location and id."
  type = object({
    location = string
    id       = string
  })
}

variable "sources" {
  description = "Other buckets that steps read, by name."
  type        = set(string)
}

variable "workloads" {
  description = "Kubernetes service accounts: the buckets each reads or writes."
  type = map(object({
    namespace = string
    account   = string
    reads     = optional(set(string), [])
    writes    = optional(set(string), [])
  }))

  validation {
    condition     = alltrue([for workload in var.workloads : length(setsubtract(setunion(workload.reads, workload.writes), keys(var.buckets))) == 0])
    error_message = "A workload reads and writes buckets there are: ${join(", ", keys(var.buckets))}."
  }
}
