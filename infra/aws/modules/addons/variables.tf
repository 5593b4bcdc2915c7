variable "cluster_name" {
  description = "Name of the cluster, once nodes are there"
  type        = string
}

variable "kubernetes_version" {
  description = "Minor version of the cluster, which the add-ons follow"
  type        = string
}

variable "name" {
  description = "First part of the names of the roles"
  type        = string
}

variable "node_repair" {
  description = "Install the agent by whose reports EKS and Karpenter replace nodes"
  type        = bool
}

variable "tags" {
  description = "Tags of the disks that claims are given, by which the budget finds them"
  type        = map(string)
}
