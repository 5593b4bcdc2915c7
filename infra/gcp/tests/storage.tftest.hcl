mock_provider "google" {}
mock_provider "google-beta" {}
mock_provider "random" {}

variables {
  name          = "nightshift-dev"
  image_readers = ["nightshift-prod-nodes@example-project.iam.gserviceaccount.com"]
  project_id    = "example-project"
  region        = "europe-west4"
  disposable    = true
  bucket_uses   = ["lake"]
  lustre        = true
}

run "each_input_is_refused_by_name" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    name        = "nightshift.dev"
    bucket_uses = ["everything-there-is"]
  }

  expect_failures = [
    var.name,
    var.bucket_uses,
  ]
}
