locals {
  # a Kubernetes service account, as IAM policies name it: no Google account stands between
  pool    = "principal://iam.googleapis.com/projects/${var.project_number}/locations/global/workloadIdentityPools/${var.workload_pool}"
  members = { for name, workload in var.workloads : name => "${local.pool}/subject/ns/${workload.namespace}/sa/${workload.account}" }
  grants = merge([
    for name, workload in var.workloads : merge(
      { for use in workload.reads : "${name} reads ${use}" => { workload = name, bucket = use, role = "roles/storage.objectViewer" } },
      { for use in workload.writes : "${name} writes ${use}" => { workload = name, bucket = use, role = "roles/storage.objectUser" } },
    )
  ]...)
  # whoever reads raw data
  sources = { for pair in setproduct([for name, workload in var.workloads : name if contains(workload.reads, "lake")], var.sources) :
    "${pair[0]} reads ${pair[1]}" => { workload = pair[0], bucket = pair[1] }
  }
}

resource "google_storage_bucket_iam_member" "workloads" {
  for_each = local.grants

  bucket = var.buckets[each.value.bucket]
  role   = each.value.role
  member = local.members[each.value.workload]
}

# raw data that lie elsewhere; in another project, whoever applies this needs the right to grant it there
resource "google_storage_bucket_iam_member" "sources" {
  for_each = local.sources

  bucket = each.value.bucket
  role   = "roles/storage.objectViewer"
  member = local.members[each.value.workload]
}

# what an endpoint on Vertex AI runs as: it loads a model and its image, and nothing else
resource "google_service_account" "vertex" {
  account_id   = "${var.name}-vertex"
  display_name = "Vertex AI endpoints of ${var.name}"
}

resource "google_storage_bucket_iam_member" "vertex" {
  bucket = var.buckets["models"]
  role   = "roles/storage.objectViewer"
  member = google_service_account.vertex.member
}

resource "google_artifact_registry_repository_iam_member" "vertex" {
  location   = var.repository.location
  repository = var.repository.id
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.vertex.member
}
