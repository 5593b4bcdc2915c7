output "vpc_id" {
  description = "Id of the network"
  value       = aws_vpc.this.id
}

output "subnet_ids" {
  description = "Ids of the private subnets by zone"
  value       = { for zone, subnet in aws_subnet.private : zone => subnet.id }
}

output "efa_security_group_id" {
  description = "Id of the security group of whatever speaks EFA"
  value       = aws_security_group.efa.id
}
