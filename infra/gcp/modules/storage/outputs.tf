output "key" {
  description = "The key, once those who encrypt with it may."
  value       = google_kms_crypto_key.this.id

  depends_on = [google_kms_crypto_key_iam_member.agents]
}

output "buckets" {
  description = "Names of the buckets, by use."
  value       = { for use, bucket in google_storage_bucket.this : use => bucket.name }
}

output "repository" {
  description = "The repository of images: its location and id."
  value = {
    location = google_artifact_registry_repository.images.location
    id       = google_artifact_registry_repository.images.repository_id
  }
}

output "repository_url" {
  description = "What the names of images begin with."
  value       = "${var.region}-docker.pkg.dev/${var.project_id}/${google_artifact_registry_repository.images.repository_id}"
}

output "lustre_service_agent" {
  description = "Who copies between Lustre and a bucket, as a member of IAM policies."
  value       = lookup(local.agents, "lustre", null)
}

output "signing_key" {
  description = "URI of the key that signs images, as cosign takes it."
  value       = "gcpkms://${google_kms_crypto_key.images.id}/versions/1"
}
