output "bucket" {
  description = "Name of the bucket with the logs"
  value       = aws_s3_bucket.this.bucket
}
