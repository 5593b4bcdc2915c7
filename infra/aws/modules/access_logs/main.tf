data "aws_partition" "current" {}

locals {
  arn   = "arn:${data.aws_partition.current.partition}"
  trail = "${local.arn}:cloudtrail:${var.region}:${var.account_id}:trail/${var.name}"
}

# of its own, so that what was logged can be read when the environment's key has gone
resource "aws_kms_key" "this" {
  description             = "Access logs of ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = 30

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "PoliciesOfTheAccountDecide"
        Effect    = "Allow"
        Principal = { AWS = "${local.arn}:iam::${var.account_id}:root" }
        Action    = "kms:*"
        Resource  = "*"
      },
      {
        Sid       = "TrailOfTheEnvironment"
        Effect    = "Allow"
        Principal = { Service = "cloudtrail.amazonaws.com" }
        Action    = ["kms:DescribeKey", "kms:GenerateDataKey*"]
        Resource  = "*"
        Condition = { ArnEquals = { "aws:SourceArn" = local.trail } }
      },
    ]
  })
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}-access"
  target_key_id = aws_kms_key.this.key_id
}

# nobody deletes what is locked, the account's administrators neither
resource "aws_s3_bucket" "this" {
  bucket              = "${var.name}-access-${var.account_id}"
  object_lock_enabled = true
}

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_object_lock_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    default_retention {
      mode = "COMPLIANCE"
      days = var.days
    }
  }

  depends_on = [aws_s3_bucket_versioning.this]
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket                  = aws_s3_bucket.this.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    bucket_key_enabled = true

    apply_server_side_encryption_by_default {
      sse_algorithm     = "aws:kms"
      kms_master_key_id = aws_kms_key.this.arn
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    id     = "unfinished-uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }

  depends_on = [aws_s3_bucket_versioning.this]
}

resource "aws_s3_bucket_policy" "this" {
  bucket = aws_s3_bucket.this.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "EncryptedOnly"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:*"
        Resource  = [aws_s3_bucket.this.arn, "${aws_s3_bucket.this.arn}/*"]
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
      {
        Sid       = "TrailLooksForItsBucket"
        Effect    = "Allow"
        Principal = { Service = "cloudtrail.amazonaws.com" }
        Action    = "s3:GetBucketAcl"
        Resource  = aws_s3_bucket.this.arn
        Condition = { ArnEquals = { "aws:SourceArn" = local.trail } }
      },
      {
        Sid       = "TrailWrites"
        Effect    = "Allow"
        Principal = { Service = "cloudtrail.amazonaws.com" }
        Action    = "s3:PutObject"
        Resource  = "${aws_s3_bucket.this.arn}/AWSLogs/${var.account_id}/*"
        Condition = { ArnEquals = { "aws:SourceArn" = local.trail } }
      },
    ]
  })

  depends_on = [aws_s3_bucket_public_access_block.this]
}

# a trail and not the bucket's own access log, which S3 does not write into a locked bucket
resource "aws_cloudtrail" "this" {
  name                          = var.name
  s3_bucket_name                = aws_s3_bucket.this.id
  kms_key_id                    = aws_kms_key.this.arn
  enable_log_file_validation    = true
  include_global_service_events = false

  advanced_event_selector {
    name = "Objects that anybody reads, writes or deletes"

    field_selector {
      field  = "eventCategory"
      equals = ["Data"]
    }

    field_selector {
      field  = "resources.type"
      equals = ["AWS::S3::Object"]
    }

    field_selector {
      field       = "resources.ARN"
      starts_with = [for arn in var.bucket_arns : "${arn}/"]
    }
  }

  depends_on = [aws_s3_bucket_policy.this, aws_s3_bucket_object_lock_configuration.this]
}
