variable "cluster_name" {
  description = "Name of the cluster"
  type        = string
}

variable "cluster_arn" {
  description = "ARN of the cluster"
  type        = string
}

variable "node_role_arn" {
  description = "ARN of the role that Karpenter gives its nodes"
  type        = string
}

variable "region" {
  description = "Region in which Karpenter may act"
  type        = string
}

variable "account_id" {
  description = "Account in which Karpenter may act"
  type        = string
}
