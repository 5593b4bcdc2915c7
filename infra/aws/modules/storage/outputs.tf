output "bucket" {
  description = "Name of the bucket, once nobody else may read it"
  value       = aws_s3_bucket.this.bucket

  depends_on = [aws_s3_bucket_public_access_block.this, aws_s3_bucket_server_side_encryption_configuration.this]
}

output "bucket_arn" {
  description = "ARN of the bucket"
  value       = aws_s3_bucket.this.arn
}

output "repository_arns" {
  description = "ARNs of the repositories by image"
  value       = { for image, repository in aws_ecr_repository.this : image => repository.arn }
}

output "repository_urls" {
  description = "URLs of the repositories by image"
  value       = { for image, repository in aws_ecr_repository.this : image => repository.repository_url }
}
