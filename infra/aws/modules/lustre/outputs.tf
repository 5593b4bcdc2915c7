output "file_system" {
  description = "What a persistent volume asks for: id, DNS name, mount name and capacity"
  value = {
    id       = aws_fsx_lustre_file_system.this.id
    dns_name = aws_fsx_lustre_file_system.this.dns_name
    mount    = aws_fsx_lustre_file_system.this.mount_name
    capacity = "${var.capacity_gib}Gi"
  }
}
