# one run for each precondition, since Terraform only tells which resource has failed
mock_provider "aws" {}

variables {
  name                  = "spot"
  kind                  = "gpu"
  cluster_name          = "nightshift-dev"
  kubernetes_version    = "1.35"
  node_role_arn         = "arn:aws:iam::000000000000:role/nodes"
  security_group_id     = "sg-cluster"
  efa_security_group_id = "sg-efa"
  subnet_ids            = ["subnet-a"]
  instance_types        = ["g6.xlarge"]
  capacity              = "on_demand"
  min                   = 0
  max                   = 2
  tags                  = { project = "nightshift", environment = "dev" }
  disk_gib              = 200
}

run "a_gpu_pool_without_gpus" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    instance_types = ["m7i.xlarge"]
  }

  expect_failures = [aws_launch_template.this]
}

run "types_with_unlike_gpus" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    instance_types = ["g6.xlarge", "g6.12xlarge"]
  }

  expect_failures = [aws_launch_template.this]
}

run "efa_on_a_type_without_it" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    fabric         = "efa"
    instance_types = ["g6.xlarge"]
  }

  expect_failures = [aws_launch_template.this]
}

run "efa_on_types_with_unlike_cards" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    fabric         = "efa"
    instance_types = ["p5.48xlarge", "p5en.48xlarge"]
  }

  expect_failures = [aws_launch_template.this]
}

run "efa_across_zones" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    fabric         = "efa"
    instance_types = ["p5.48xlarge"]
    subnet_ids     = ["subnet-a", "subnet-b"]
  }

  expect_failures = [aws_launch_template.this]
}

run "a_reservation_that_nobody_named" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    capacity = "reserved"
  }

  expect_failures = [aws_launch_template.this]
}

run "a_reservation_for_two_types" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    capacity       = "reserved"
    reservation_id = "cr-0123456789abcdef0"
    instance_types = ["g6.xlarge", "g5.xlarge"]
  }

  expect_failures = [aws_launch_template.this]
}

run "a_reservation_in_two_zones" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    capacity       = "reserved"
    reservation_id = "cr-0123456789abcdef0"
    subnet_ids     = ["subnet-a", "subnet-b"]
  }

  expect_failures = [aws_launch_template.this]
}

run "a_placement_group_on_a_reservation" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    capacity        = "reserved"
    reservation_id  = "cr-0123456789abcdef0"
    placement_group = true
  }

  expect_failures = [aws_launch_template.this]
}

run "a_placement_group_across_zones" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    placement_group = true
    subnet_ids      = ["subnet-a", "subnet-b"]
  }

  expect_failures = [aws_launch_template.this]
}

run "spot_of_one_type" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    capacity = "spot"
  }

  expect_failures = [aws_launch_template.this]
}

run "fast_pulls_without_an_instance_store" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    kind           = "general"
    instance_types = ["m7i.xlarge"]
    preload_images = true
  }

  expect_failures = [aws_launch_template.this]
}

run "general_nodes_that_share_gpus" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    kind           = "general"
    instance_types = ["m7i.xlarge"]
    sharing        = "time-slicing"
  }

  expect_failures = [aws_launch_template.this]
}

run "partitions_without_nvidias_operator" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    sharing = "mig"
  }

  expect_failures = [var.sharing]
}
