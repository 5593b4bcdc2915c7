output "id" {
  description = "Full name of the cluster."
  value       = google_container_cluster.this.id
}

output "name" {
  description = "Name of the cluster."
  value       = google_container_cluster.this.name
}

output "location" {
  description = "Region or zone of the control plane."
  value       = google_container_cluster.this.location
}

output "workload_pool" {
  description = "What Kubernetes service accounts are members of, for IAM."
  value       = google_container_cluster.this.workload_identity_config[0].workload_pool
}

output "node_service_account" {
  description = "The account nodes act as, once it may."
  value       = google_service_account.nodes.email

  depends_on = [google_project_iam_member.nodes, google_artifact_registry_repository_iam_member.nodes]
}

output "legacy_lustre_port" {
  description = "Whether the Lustre driver speaks port 6988 instead of 988."
  value       = google_container_cluster.this.addons_config[0].lustre_csi_driver_config[0].enable_legacy_lustre_port
}
