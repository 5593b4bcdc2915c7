"""What each cloud's Terraform refuses, from one `validate` and one plan of all cases beside each other."""
