output "vpc_id" {
  description = "Id of the network"
  value       = aws_vpc.this.id
}

output "subnet_ids" {
  description = "Ids of the private subnets by zone, once they reach AWS and the Internet"
  value       = { for zone, subnet in aws_subnet.private : zone => subnet.id }

  # and until the last node has gone: without its way out a node neither starts nor drains
  depends_on = [aws_route.nat, aws_route_table_association.private, aws_route_table_association.public, aws_vpc_endpoint.s3, aws_vpc_endpoint.interface, aws_vpc_security_group_ingress_rule.endpoints]
}

output "efa_security_group_id" {
  description = "Id of the security group of whatever speaks EFA"
  value       = aws_security_group.efa.id
}
