output "name" {
  description = "Name of the cluster"
  value       = aws_eks_cluster.this.name
}

output "arn" {
  description = "ARN of the cluster"
  value       = aws_eks_cluster.this.arn
}

output "kubernetes_version" {
  description = "Minor version of the control plane, which nodes and add-ons follow"
  value       = aws_eks_cluster.this.version
}

output "api_policy_arn" {
  description = "ARN of the policy of who reaches the API through a node"
  value       = aws_iam_policy.api.arn
}

output "security_group_id" {
  description = "Id of the security group that EKS makes for control plane and nodes"
  value       = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
}

output "node_role_arn" {
  description = "ARN of the role of every node"
  value       = aws_iam_role.nodes.arn

  # a node that starts before its network plugin and its rights are there never becomes ready
  depends_on = [aws_iam_role_policy_attachment.nodes, aws_eks_addon.before_nodes]
}

output "node_role_name" {
  description = "Name of the role of every node"
  value       = aws_iam_role.nodes.name
}
