variable "name" {
  description = "Name of the cluster"
  type        = string
}

variable "region" {
  description = "Region of the cluster"
  type        = string
}

variable "account_id" {
  description = "Account of the cluster"
  type        = string
}

variable "kubernetes_version" {
  description = "Minor version of Kubernetes"
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets in two zones or more"
  type        = list(string)
}

variable "api_cidrs" {
  description = "IPv4 ranges from which the API is reached over the Internet; none keeps it private"
  type        = set(string)
}

variable "administrators" {
  description = "ARNs of the IAM roles that administer the cluster"
  type        = set(string)
}

variable "people" {
  description = "ARNs of the IAM roles of those who operate the cluster's namespaces, and of those who look"
  type = object({
    operators = set(string)
    readers   = set(string)
  })
}

variable "deletion_protection" {
  description = "Refuse to delete the cluster"
  type        = bool
}

variable "log_days" {
  description = "Days for which the control plane's logs are kept"
  type        = number
}

variable "kms_key_arn" {
  description = "Key of Kubernetes secrets and of the logs"
  type        = string
}
