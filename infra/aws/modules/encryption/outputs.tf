output "key_arn" {
  description = "ARN of the key"
  value       = aws_kms_key.this.arn
}

output "signing_key" {
  description = "URI of the key that signs images, as cosign takes it"
  value       = "awskms:///${aws_kms_key.images.arn}"
}
