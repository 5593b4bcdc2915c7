mock_provider "google" {}

variables {
  name           = "nightshift-dev"
  project_number = "123456789012"
  workload_pool  = "example-project.svc.id.goog"
  buckets        = { lake = "bucket-lake", models = "bucket-models" }
  sources        = ["elsewhere"]
  repository     = { location = "europe-west4", id = "images" }
  workloads      = { steps = { namespace = "kubeflow", account = "nightshift", reads = ["lake"], writes = ["models"] } }
}

run "a_workload_gets_what_it_asks_for_and_no_more" {
  command = plan

  module {
    source = "./modules/identity"
  }

  assert {
    condition     = { for name, grant in google_storage_bucket_iam_member.workloads : name => grant.role } == { "steps reads lake" = "roles/storage.objectViewer", "steps writes models" = "roles/storage.objectUser" }
    error_message = "one role for each bucket named"
  }
  assert {
    condition     = { for name, grant in google_storage_bucket_iam_member.workloads : name => grant.member } == { for name in ["steps reads lake", "steps writes models"] : name => "principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/example-project.svc.id.goog/subject/ns/kubeflow/sa/nightshift" }
    error_message = "the Kubernetes service account has the right itself"
  }
  assert {
    condition     = google_storage_bucket_iam_member.sources["steps reads elsewhere"].role == "roles/storage.objectViewer"
    error_message = "steps read the buckets of others"
  }
}
