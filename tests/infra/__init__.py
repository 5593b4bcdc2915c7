"""What judges `infra/`; what each cloud has of its own is in the folder of its name."""
