output "cluster_name" {
  description = "Name of the cluster, once these nodes are there"
  value       = aws_eks_node_group.this.cluster_name
}
