data "aws_partition" "current" {}

locals {
  partition = data.aws_partition.current.partition
  encrypt   = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"]
  # as AWS's own key for disks has it: whoever may use disks, such as the role by which the autoscaler starts nodes
  through_ec2 = {
    Sid       = "DisksOfTheAccount"
    Effect    = "Allow"
    Principal = { AWS = "*" }
    Action    = concat(local.encrypt, ["kms:CreateGrant"])
    Resource  = "*"
    Condition = {
      StringEquals = { "kms:CallerAccount" = var.account_id, "kms:ViaService" = "ec2.${var.region}.amazonaws.com" }
    }
  }
}

resource "aws_kms_key" "this" {
  description             = "Data, images, logs and Kubernetes secrets of ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = 30

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(var.disks ? [local.through_ec2] : [], [
      {
        Sid       = "PoliciesOfTheAccountDecide"
        Effect    = "Allow"
        Principal = { AWS = "arn:${local.partition}:iam::${var.account_id}:root" }
        Action    = "kms:*"
        Resource  = "*"
      },
      {
        Sid       = "LogGroupsOfTheAccount"
        Effect    = "Allow"
        Principal = { Service = "logs.${var.region}.amazonaws.com" }
        Action    = local.encrypt
        Resource  = "*"
        Condition = {
          ArnLike = { "kms:EncryptionContext:aws:logs:arn" = "arn:${local.partition}:logs:${var.region}:${var.account_id}:log-group:*" }
        }
      },
      {
        # FSx moves files between Lustre and the bucket under a role that it makes with the file system
        Sid       = "LustreToBucket"
        Effect    = "Allow"
        Principal = { AWS = "*" }
        Action    = local.encrypt
        Resource  = "*"
        Condition = {
          StringEquals = { "kms:CallerAccount" = var.account_id, "kms:ViaService" = "s3.${var.region}.amazonaws.com" }
          ArnLike      = { "aws:PrincipalArn" = "arn:${local.partition}:iam::${var.account_id}:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*" }
        }
      },
    ])
  })
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.this.key_id
}

# every disk that names no key, of nodes, of claims and of whatever else the account starts in the region
resource "aws_ebs_default_kms_key" "this" {
  count = var.disks ? 1 : 0

  key_arn = aws_kms_key.this.arn
}

resource "aws_ebs_encryption_by_default" "this" {
  count = var.disks ? 1 : 0

  enabled = true
}

# signs images: its public half verifies them
resource "aws_kms_key" "images" {
  description              = "Signatures of the images of ${var.name}"
  customer_master_key_spec = "ECC_NIST_P256"
  key_usage                = "SIGN_VERIFY"
  deletion_window_in_days  = 30

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "PoliciesOfTheAccountDecide"
      Effect    = "Allow"
      Principal = { AWS = "arn:${local.partition}:iam::${var.account_id}:root" }
      Action    = "kms:*"
      Resource  = "*"
    }]
  })
}

resource "aws_kms_alias" "images" {
  name          = "alias/${var.name}-images"
  target_key_id = aws_kms_key.images.key_id
}
