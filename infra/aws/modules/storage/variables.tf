variable "name" {
  description = "First part of the bucket's and the repositories' names"
  type        = string
}

variable "account_id" {
  description = "Account, which makes the bucket's name one of a kind"
  type        = string
}

variable "kms_key_arn" {
  description = "Key of the bucket and the repositories"
  type        = string
}

variable "image_readers" {
  description = "Ids of other accounts whose nodes pull the images"
  type        = set(string)
}

variable "deletion_protection" {
  description = "Refuse to delete a bucket or repository that is not empty"
  type        = bool
}
