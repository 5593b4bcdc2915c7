"""What a Terraform plan costs a month, from the dated table `prices.yaml`."""
