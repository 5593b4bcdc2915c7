variable "name" {
  description = "First part of the roles' names"
  type        = string
}

variable "region" {
  description = "Region of the bucket, the groups that scale and the endpoints"
  type        = string
}

variable "account_id" {
  description = "Account of all these, and the only one for which SageMaker may take its role"
  type        = string
}

variable "cluster_name" {
  description = "Name of the cluster"
  type        = string
}

variable "bucket_arn" {
  description = "ARN of the bucket"
  type        = string
}

variable "sources" {
  description = "Other buckets that steps read: by name, with the key they are encrypted with if it is not S3's own"
  type = map(object({
    kms_key_arn = optional(string)
  }))
}

variable "state" {
  description = "Steps keep their state in the bucket, below `state`: there is no file system"
  type        = bool
}

variable "repositories" {
  description = "ARNs of the image repositories by image"
  type        = map(string)
}

variable "kms_key_arn" {
  description = "Key of the bucket"
  type        = string
}
