data "aws_partition" "current" {}

resource "aws_s3_bucket" "this" {
  bucket        = "${var.name}-${var.account_id}"
  force_destroy = !var.deletion_protection
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

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    bucket_key_enabled = true

    apply_server_side_encryption_by_default {
      sse_algorithm     = "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  # what an upload leaves behind that was killed, see docs/concepts/architecture.md
  rule {
    id     = "unfinished-uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }

  rule {
    id     = "replaced-objects"
    status = "Enabled"

    filter {}

    noncurrent_version_expiration {
      noncurrent_days = 30
    }
  }

  depends_on = [aws_s3_bucket_versioning.this]
}

resource "aws_s3_bucket_policy" "this" {
  bucket = aws_s3_bucket.this.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "EncryptedOnly"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = [aws_s3_bucket.this.arn, "${aws_s3_bucket.this.arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })

  depends_on = [aws_s3_bucket_public_access_block.this]
}

resource "aws_ecr_repository" "this" {
  for_each = toset(["airflow", "base", "rapids", "serving", "serving-gpu"])

  name                 = "${var.name}/${each.key}"
  image_tag_mutability = "IMMUTABLE"
  force_delete         = !var.deletion_protection

  image_scanning_configuration {
    scan_on_push = true
  }

  encryption_configuration {
    encryption_type = "KMS"
    kms_key         = var.kms_key_arn
  }
}

# prod runs the images that dev has tried, from dev's repositories
resource "aws_ecr_repository_policy" "this" {
  for_each = { for image, repository in aws_ecr_repository.this : image => repository if length(var.image_readers) > 0 }

  repository = each.value.name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "OtherAccountsPull"
      Effect    = "Allow"
      Principal = { AWS = [for account in var.image_readers : "arn:${data.aws_partition.current.partition}:iam::${account}:root"] }
      Action    = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    }]
  })
}

resource "aws_ecr_lifecycle_policy" "this" {
  for_each = aws_ecr_repository.this

  repository = each.value.name

  # the first rule that an image's tag matches decides; untagged images stay: a signature without a tag is one
  policy = jsonencode({
    rules = [
      {
        rulePriority = 1
        description  = "What runs stays"
        selection    = { tagStatus = "tagged", tagPatternList = ["keep-*"], countType = "imageCountMoreThan", countNumber = 100000 }
        action       = { type = "expire" }
      },
      {
        rulePriority = 2
        description  = "Signatures that have a tag stay"
        selection    = { tagStatus = "tagged", tagPatternList = ["sha256-*"], countType = "imageCountMoreThan", countNumber = 100000 }
        action       = { type = "expire" }
      },
      {
        rulePriority = 3
        description  = "Other commits go after half a year"
        selection    = { tagStatus = "tagged", tagPatternList = ["*"], countType = "sinceImagePushed", countUnit = "days", countNumber = 180 }
        action       = { type = "expire" }
      },
    ]
  })
}
