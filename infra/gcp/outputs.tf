output "cluster" {
  description = "Name of the cluster, for: gcloud container clusters get-credentials NAME --location LOCATION --dns-endpoint"
  value       = module.cluster.name
}

output "location" {
  description = "Where its control plane is: the region, or the zone if there is only one."
  value       = module.cluster.location
}

output "repository" {
  description = "Where the images go: the registry that pipelines/environments.py names."
  value       = module.storage.repository_url
}

output "buckets" {
  description = "Names of the buckets, by use."
  value       = module.storage.buckets
}

output "volume" {
  description = "What infra/kubernetes/gcp-dev or gcp-prod has to say: volume handle, address, share or file system, and capacity; null without one."
  value       = one(concat(module.lustre[*].volume, module.filestore[*].volume))
}

output "identities" {
  description = "Google service accounts by workload: what the Kubernetes service accounts are annotated with."
  value       = module.identity.emails
}

output "vertex_service_account" {
  description = "The account a Vertex AI endpoint runs as."
  value       = module.identity.vertex_email
}
