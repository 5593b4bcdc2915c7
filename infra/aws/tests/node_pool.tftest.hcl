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

run "a_spot_pool_has_both_taints_and_tells_the_autoscaler" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    capacity       = "spot"
    instance_types = ["g6.xlarge", "g5.xlarge", "g4dn.xlarge"]
  }

  assert {
    condition     = { for taint in aws_eks_node_group.this.taint : taint.key => taint.value } == { "nvidia.com/gpu" = "present", "nightshift/spot" = "true" }
    error_message = "the GPU taint and the spot taint"
  }

  assert {
    condition     = toset(keys(aws_autoscaling_group_tag.template)) == toset(["label/nightshift/pool", "label/nightshift/gpus", "label/k8s.amazonaws.com/accelerator", "taint/nvidia.com/gpu", "taint/nightshift/spot", "resources/nvidia.com/gpu"])
    error_message = "a tag for each label, each taint and the GPUs"
  }
}

run "efa_has_an_interface_on_every_card_and_one_for_ip" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    fabric          = "efa"
    instance_types  = ["p5.48xlarge"]
    placement_group = true
  }

  assert {
    condition     = aws_eks_node_group.this.labels["nightshift/gpus"] == "8"
    error_message = "which no step of one GPU chooses"
  }

  assert {
    condition     = length(aws_launch_template.this.network_interfaces) == 33
    error_message = "32 cards and one interface for IP"
  }

  assert {
    condition     = length(distinct([for nic in aws_launch_template.this.network_interfaces : "${nic.network_card_index}/${nic.device_index}"])) == 33
    error_message = "no two at one place"
  }

  assert {
    condition     = alltrue([for nic in aws_launch_template.this.network_interfaces : contains(nic.security_groups, "sg-efa")])
    error_message = "every interface is in EFA's security group"
  }

  assert {
    condition     = aws_placement_group.this[0].strategy == "cluster"
    error_message = "close to each other"
  }
}

run "a_capacity_block_names_its_type_in_the_template_only" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    capacity       = "capacity_block"
    instance_types = ["p5.48xlarge"]
    reservation_id = "cr-0123456789abcdef0"
  }

  assert {
    condition     = aws_launch_template.this.instance_type == "p5.48xlarge"
    error_message = "the type is in the template"
  }

  assert {
    condition     = aws_launch_template.this.instance_market_options[0].market_type == "capacity-block"
    error_message = "the market is that of capacity blocks"
  }

  assert {
    condition     = aws_eks_node_group.this.capacity_type == "CAPACITY_BLOCK"
    error_message = "and so must the node group"
  }
}

run "a_reservation_is_on_demand_and_targeted" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    capacity       = "reserved"
    reservation_id = "cr-0123456789abcdef0"
  }

  assert {
    condition     = aws_eks_node_group.this.capacity_type == "ON_DEMAND"
    error_message = "a reservation is paid for as on-demand"
  }

  assert {
    condition     = aws_launch_template.this.capacity_reservation_specification[0].capacity_reservation_target[0].capacity_reservation_id == "cr-0123456789abcdef0"
    error_message = "and asked for by its id"
  }
}

run "general_nodes_have_no_taint_and_no_nvidia_image" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    kind           = "general"
    instance_types = ["m7i.xlarge"]
    min            = 1
  }

  assert {
    condition     = length(aws_eks_node_group.this.taint) == 0
    error_message = "no taint"
  }

  assert {
    condition     = aws_eks_node_group.this.ami_type == "AL2023_x86_64_STANDARD"
    error_message = "the image without drivers"
  }
}

run "a_shared_pool_is_chosen_by_no_step_and_offers_four_shares_of_each_gpu" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    sharing = "time-slicing"
  }

  assert {
    condition     = aws_eks_node_group.this.labels["nightshift/gpus"] == "shared" && aws_eks_node_group.this.labels["nvidia.com/device-plugin.config"] == "time-slicing"
    error_message = "a label that no step asks for, and the device plugin's configuration"
  }

  assert {
    condition     = [for tag in aws_autoscaling_group_tag.template["resources/nvidia.com/gpu"].tag : tag.value] == ["4"]
    error_message = "the autoscaler counts shares"
  }
}

run "repair_and_fast_pulls_are_off_until_they_are_chosen" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  assert {
    condition     = length(aws_eks_node_group.this.node_repair_config) == 0 && !strcontains(base64decode(aws_launch_template.this.user_data), "featureGates")
    error_message = "neither"
  }
}

run "repair_and_fast_pulls_are_on_where_they_are_chosen" {
  command = plan

  module {
    source = "./modules/node_pool"
  }

  variables {
    instance_types = ["p6-b200.48xlarge"]
    fabric         = "efa"
    node_repair    = true
    preload_images = true
  }

  assert {
    condition     = aws_eks_node_group.this.node_repair_config[0].enabled
    error_message = "EKS replaces broken nodes"
  }

  assert {
    condition     = yamldecode(split("\n\n", base64decode(aws_launch_template.this.user_data))[2]).spec.featureGates.FastImagePull
    error_message = "nodeadm is told in its own schema"
  }

  assert {
    condition     = length(aws_launch_template.this.network_interfaces) == 9
    error_message = "8 cards and one interface for IP"
  }
}
