output "cluster" {
  description = "Name of the cluster, for: gcloud container clusters get-credentials NAME --location LOCATION --dns-endpoint"
  value       = module.cluster.name
}

output "location" {
  description = "Where its control plane is: the region, or the zone if there is only one."
  value       = module.cluster.location
}

output "repository" {
  description = "Where the images go."
  value       = module.storage.repository_url
}

output "buckets" {
  description = "Names of the buckets, by use."
  value       = module.storage.buckets
}

output "volume" {
  description = "What the persistent volume says: volume handle, address, share or file system, and capacity; null without one."
  value       = one(concat(module.lustre[*].volume, module.filestore[*].volume))
}

output "vertex_service_account" {
  description = "The account a Vertex AI endpoint runs as."
  value       = module.identity.vertex_email
}

output "gpu_pools" {
  description = "Capacities of the GPU pools that steps use, by name: the ComputeClass tries them in the order of the answers."
  value       = { for name, pool in var.gpu_pools : name => pool.capacity if pool.sharing == "none" }
}

output "signing_key" {
  description = "URI of the key that signs images, as cosign takes it"
  value       = module.storage.signing_key
}

output "access_logs" {
  description = "Name of the log bucket that says who read which object; null without protected data"
  value       = one(module.access_logs[*].bucket)
}

output "disk_key" {
  description = "Key of the disks of claims; null without protected data, where Google's own encrypts them"
  value       = var.protected_data ? module.storage.key : null
}
