mock_provider "aws" {}

variables {
  environment         = "dev"
  region              = "us-east-1"
  zones               = ["us-east-1a", "us-east-1b"]
  kubernetes_version  = "1.35"
  nat_per_zone        = false
  deletion_protection = false
  administrators      = ["arn:aws:iam::000000000000:role/administrators"]
  gpu_pools           = {}
  budget              = { monthly_usd = 100, anomaly_usd = 10, emails = ["nightshift@example.com"] }
}

run "the_api_is_private_unless_somebody_is_named" {
  command = plan

  assert {
    condition     = module.cluster.name == "nightshift-dev"
    error_message = "names begin with the project's and the environment's"
  }

  assert {
    condition     = output.efa_interfaces == 0
    error_message = "there is no interface without GPU pools"
  }
}

run "what_no_variable_may_be" {
  command = plan

  variables {
    name                = "Nightshift"
    environment         = "for-staging"
    region              = "us-east-1a"
    cidr                = "10.0.0.0/24"
    interface_endpoints = ["Amazon ECR"]
    kubernetes_version  = "1.29"
    api_cidrs           = ["0.0.0.0/0"]
    administrators      = []
    general_pool        = { min = 0 }
    log_days            = 42
    tags                = { project = "another" }
    sources             = { "s3://raw" = {} }
    image_readers       = ["prod"]
  }

  expect_failures = [var.sources, var.image_readers, var.name, var.environment, var.region, var.cidr, var.interface_endpoints, var.kubernetes_version, var.api_cidrs, var.administrators, var.general_pool, var.log_days, var.tags]
}

run "a_user_where_a_role_is_asked_for_a_network_too_large_and_one_zone" {
  command = plan

  variables {
    people = { readers = ["arn:aws:iam::000000000000:user/one"] }
    cidr   = "10.0.0.0/8"
    zones  = ["us-east-1a"]
  }

  expect_failures = [var.people, var.cidr, var.zones]
}

run "a_role_in_two_groups_and_lustre_with_efa_that_no_node_speaks" {
  command = plan

  variables {
    people = { operators = ["arn:aws:iam::000000000000:role/one"], readers = ["arn:aws:iam::000000000000:role/one"] }
    lustre = { efa = true }
  }

  expect_failures = [var.people, var.lustre]
}

run "a_gpu_that_always_runs" {
  command = plan

  variables {
    gpu_pools = { idle = { instance_types = ["g6.xlarge"], capacity = "on_demand", min = 1, max = 1 } }
  }

  expect_failures = [var.gpu_pools]
}

run "a_spot_pool_is_named_so" {
  command = plan

  variables {
    gpu_pools = { cheap = { instance_types = ["g6.xlarge", "g6.2xlarge"], capacity = "spot", max = 1 } }
  }

  expect_failures = [var.gpu_pools]
}

run "a_gpu_pool_named_as_the_general_one" {
  command = plan

  variables {
    gpu_pools = { general = { instance_types = ["g6.xlarge"], capacity = "on_demand", max = 1 } }
  }

  expect_failures = [var.gpu_pools]
}

run "a_pool_in_a_zone_without_a_subnet" {
  command = plan

  variables {
    gpu_pools = { far = { instance_types = ["g6.xlarge"], capacity = "on_demand", max = 1, zones = ["us-east-1f"] } }
  }

  expect_failures = [var.gpu_pools]
}

run "karpenter_leaves_the_pools_with_efa_and_the_shared_one" {
  command = plan

  variables {
    karpenter   = true
    gpu_sharing = "time-slicing"
    gpu_pools = {
      on-demand = { instance_types = ["g6.xlarge"], capacity = "on_demand", max = 1 }
      fabric    = { instance_types = ["p5.48xlarge"], capacity = "on_demand", max = 2, fabric = "efa" }
    }
  }

  assert {
    condition     = toset(keys(module.gpu_pools)) == toset(["fabric", "shared"])
    error_message = "two would start a node for one pod"
  }

  assert {
    condition     = output.efa_interfaces == 32
    error_message = "what a machine of a TrainJob asks for"
  }
}

run "partitions_are_refused" {
  command = plan

  variables {
    gpu_sharing = "mig"
  }

  expect_failures = [var.gpu_sharing]
}

run "a_second_shared_pool_is_refused" {
  command = plan

  variables {
    gpu_sharing = "time-slicing"
    gpu_pools   = { shared = { instance_types = ["g6.xlarge"], capacity = "on_demand", max = 1 } }
  }

  expect_failures = [var.gpu_sharing]
}
