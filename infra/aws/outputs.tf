output "cluster_name" {
  description = "Name of the EKS cluster"
  value       = module.cluster.name
}

output "api_policy_arn" {
  description = "ARN of the policy to attach to the roles of people who reach the API by infra/aws/connect.sh"
  value       = module.cluster.api_policy_arn
}

output "bucket" {
  description = "Name of the S3 bucket"
  value       = module.storage.bucket
}

output "repositories" {
  description = "URLs of the ECR repositories by image"
  value       = module.storage.repository_urls
}

output "lustre" {
  description = "What the persistent volume says: id, DNS name, mount name and capacity of the file system; null without one"
  value       = one(module.lustre[*].file_system)
}

output "karpenter" {
  description = "What Karpenter's chart and infra/cluster/karpenter ask for: the interruption queue and the nodes' role, by name"
  value       = { queue = module.karpenter.queue_name, node_role = module.cluster.node_role_name }
}

output "sagemaker_role_arn" {
  description = "ARN of the role under which SageMaker runs an endpoint"
  value       = module.identity.sagemaker_role_arn
}

output "efa_interfaces" {
  description = "EFA interfaces of a node for trainings on several, which the component infra/kubernetes/efa asks for; 0 without such nodes"
  value       = max(0, [for pool in module.gpu_pools : pool.efa_interfaces]...)
}

output "signing_key" {
  description = "URI of the key that signs images, as cosign takes it"
  value       = module.encryption.signing_key
}

output "access_logs" {
  description = "Name of the bucket with the logs of who read protected data; null without them"
  value       = one(module.access_logs[*].bucket)
}
