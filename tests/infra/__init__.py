"""What judges `infra/`; each cloud's policies are in the folder of its name."""
