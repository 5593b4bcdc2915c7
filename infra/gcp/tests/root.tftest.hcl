# What the root refuses, and what it makes of good inputs.
mock_provider "google" {
  mock_data "google_project" {
    defaults = { number = "123456789012" }
  }
}
mock_provider "google-beta" {}
mock_provider "random" {}

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

run "each_input_is_refused_by_name" {
  command = plan

  variables {
    project_id         = "Example-Project"
    billing_account    = "1234"
    name               = "nightshift-of-many-teams"
    environment        = "for-tests"
    region             = "europe-west4-a"
    kubernetes_version = "1.33"
    release_channel    = "RAPID"
    general_pool       = { machine_type = "e2-standard-8", min_nodes = 0, max_nodes = 4 }
    gpu_pools          = {}
    labels             = { Team = "ml" }
    people_domain      = "people@example.com"
    sources            = ["gs://raw"]
    image_readers      = ["prod"]
  }

  expect_failures = [
    var.project_id,
    var.billing_account,
    var.name,
    var.environment,
    var.region,
    var.kubernetes_version,
    var.release_channel,
    var.general_pool,
    var.gpu_pools,
    var.labels,
    var.people_domain,
    var.sources,
    var.image_readers,
  ]
}

run "a_zone_lies_in_the_region" {
  command = plan

  variables {
    zones = ["europe-west4-a", "us-central1-a"]
  }

  expect_failures = [var.zones]
}

run "a_zone_is_named_once" {
  command = plan

  variables {
    zones = ["europe-west4-a", "europe-west4-a"]
  }

  expect_failures = [var.zones]
}

run "lustre_lies_where_the_nodes_are" {
  command = plan

  variables {
    lustre = { zone = "europe-west4-c", capacity_gib = 9000, throughput = 1000 }
  }

  expect_failures = [var.lustre]
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

run "steps_share_one_file_system" {
  command = plan

  variables {
    filestore = { zone = "europe-west4-a" }
  }

  expect_failures = [var.filestore]
}

run "filestore_lies_where_the_nodes_are" {
  command = plan

  variables {
    lustre    = null
    filestore = { zone = "europe-west4-c" }
  }

  expect_failures = [var.filestore]
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

run "a_way_to_share_that_there_is_not_is_refused" {
  command = plan

  variables {
    gpu_sharing = "mps"
  }

  expect_failures = [var.gpu_sharing]
}

run "a_second_shared_pool_is_refused" {
  command = plan

  variables {
    gpu_sharing = "mig"
    gpu_pools   = { shared = { accelerator = "nvidia-l4", gpus = 1, max_nodes = 1, capacity = "on_demand", zones = ["europe-west4-a"] } }
  }

  expect_failures = [var.gpu_sharing]
}
