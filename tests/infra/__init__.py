"""What judges `infra/`; each cloud's policies and seeded defects are in the folder of its name."""
