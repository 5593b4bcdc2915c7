output "sagemaker_role_arn" {
  description = "ARN of the role under which SageMaker runs an endpoint"
  value       = aws_iam_role.sagemaker.arn
}
