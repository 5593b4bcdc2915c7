"""What runs Terraform and reads its plans; the configurations themselves are in `aws/` and `gcp/`."""
