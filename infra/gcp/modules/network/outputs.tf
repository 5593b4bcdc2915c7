output "network_id" {
  description = "Full name of the network."
  value       = google_compute_network.this.id
}

output "subnetwork_id" {
  description = "Full name of the nodes' subnetwork."
  value       = google_compute_subnetwork.nodes.id
}

output "pod_range" {
  description = "Name of the secondary range of the pods."
  value       = google_compute_subnetwork.nodes.secondary_ip_range[0].range_name
}

output "service_range" {
  description = "Name of the secondary range of the services."
  value       = google_compute_subnetwork.nodes.secondary_ip_range[1].range_name
}

output "service_peering_range" {
  description = "Addresses of Google's own networks, as a CIDR block."
  value       = "${google_compute_global_address.services.address}/${google_compute_global_address.services.prefix_length}"
}

output "control_plane_range" {
  description = "Addresses of the control plane, as a CIDR block."
  value       = var.control_plane_range
}
