variable "name" {
  description = "Name of the key"
  type        = string
}

variable "region" {
  description = "Region whose services use the key"
  type        = string
}

variable "account_id" {
  description = "Account whose policies say who may use the key"
  type        = string
}

variable "disks" {
  description = "Encrypt the account's disks in the region with the key, in the place of AWS's own"
  type        = bool
}
