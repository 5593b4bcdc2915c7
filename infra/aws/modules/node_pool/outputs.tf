output "cluster_name" {
  description = "Name of the cluster, once these nodes are there"
  value       = aws_eks_node_group.this.cluster_name
}

output "labels" {
  description = "Labels of the nodes"
  value       = local.labels
}

output "taints" {
  description = "Taints of the nodes, values by key"
  value       = local.taints
}
