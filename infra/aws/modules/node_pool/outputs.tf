output "cluster_name" {
  description = "Name of the cluster, once these nodes are there"
  value       = aws_eks_node_group.this.cluster_name
}

output "efa_interfaces" {
  description = "EFA interfaces of a node, which a pod asks for; 0 without EFA"
  value       = local.efa_cards
}
