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
