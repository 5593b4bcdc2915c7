# What the root refuses, and what it makes of good inputs.
mock_provider "google" {
  mock_data "google_project" {
    defaults = { number = "123456789012" }
  }
}
mock_provider "google-beta" {}
mock_provider "random" {}
mock_provider "time" {}

variables {
  project_id      = "example-project"
  billing_account = "012345-6789AB-CDEF01"
  environment     = "dev"
  region          = "europe-west4"
  zones           = ["europe-west4-a", "europe-west4-b"]
  general_pool    = { machine_type = "e2-standard-8", min_nodes = 1, max_nodes = 4 }
  gpu_pools       = { l4 = { accelerator = "nvidia-l4", gpus = 1, max_nodes = 1, capacity = "on_demand", zones = ["europe-west4-a"] } }
  lustre          = { zone = "europe-west4-a", capacity_gib = 9000, throughput = 1000 }
  budget          = { amount = 100, emails = ["ml@example.com"] }
}

run "names_are_the_name_and_the_environment" {
  command = plan

  assert {
    condition     = output.cluster == "nightshift-dev"
    error_message = "dev and prod do not share a name"
  }
}

run "filestore_stands_in_for_lustre" {
  command = plan

  variables {
    lustre    = null
    filestore = { zone = "europe-west4-a" }
  }

  assert {
    condition     = length(module.lustre) == 0 && length(module.filestore) == 1
    error_message = "one file system"
  }
}

run "without_a_file_system_steps_keep_their_state_in_the_lake" {
  command = plan

  variables {
    lustre = null
  }

  assert {
    condition     = one(local.state) == "lake" && length(local.files) == 0
    error_message = "and no API of files is on"
  }
}

run "a_compute_class_is_the_clusters_default_and_a_shared_pool_is_none_of_its_order" {
  command = plan

  variables {
    compute_class = true
    gpu_sharing   = "mig"
  }

  assert {
    condition     = toset(keys(module.gpu_pools.machine_types)) == toset(["l4", "shared"])
    error_message = "a pool beside those that steps use"
  }
  assert {
    condition     = output.gpu_pools == { l4 = "on_demand" }
    error_message = "in the order are those that steps use"
  }
}
