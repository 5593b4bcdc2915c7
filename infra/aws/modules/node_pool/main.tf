locals {
  # GPUs by instance type; all of these have an instance store
  gpus = merge(
    { for size in ["xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"] : "g4dn.${size}" => 1 },
    { for size in ["xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"] : "g5.${size}" => 1 },
    { for size in ["xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"] : "g6.${size}" => 1 },
    { for size in ["xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"] : "g6e.${size}" => 1 },
    { for type in ["g4dn.12xlarge", "g5.12xlarge", "g5.24xlarge", "g6.12xlarge", "g6.24xlarge", "g6e.12xlarge", "g6e.24xlarge"] : type => 4 },
    { for type in ["g5.48xlarge", "g6.48xlarge", "g6e.48xlarge"] : type => 8 },
    { "p5.4xlarge" = 1 },
    { for type in ["p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"] : type => 8 },
  )
  # EFA interfaces, one for each network card, of the types with several
  cards = { "p4d.24xlarge" = 4, "p4de.24xlarge" = 4, "p5.48xlarge" = 32, "p5e.48xlarge" = 32, "p5en.48xlarge" = 16, "p6-b200.48xlarge" = 8 }
  # layers side by side, onto the instance store: without one, on a slow volume, images would come later, not sooner
  features = var.preload_images ? "\n  featureGates:\n    FastImagePull: true" : ""
  # pods that share a GPU in turns: infra/cluster/values/nvidia-device-plugin.yaml
  shares = var.sharing == "time-slicing" ? 4 : 1

  gpu_counts  = distinct([for type in var.instance_types : lookup(local.gpus, type, 0)])
  efa         = var.fabric == "efa"
  efa_cards   = local.efa ? min([for type in var.instance_types : lookup(local.cards, type, 0)]...) : 0
  reservation = contains(["reserved", "capacity_block"], var.capacity)

  labels = merge(
    { "nightshift/pool" = var.kind },
    # by the first a step chooses a node that has no more GPUs than it takes; by the second, whose value nobody reads, the
    # autoscaler waits for the GPUs of a node that has just come, and does not start another
    var.kind == "gpu" ? { "nightshift/gpus" = var.sharing == "none" ? tostring(local.gpu_counts[0]) : "shared", "k8s.amazonaws.com/accelerator" = "nvidia" } : {},
    # which of its configurations the device plugin follows on these nodes
    var.sharing == "none" ? {} : { "nvidia.com/device-plugin.config" = var.sharing },
  )
  taints = merge(
    var.kind == "gpu" ? { "nvidia.com/gpu" = "present" } : {},
    # a key of our own: those below eks.amazonaws.com are AWS's
    var.kind == "gpu" && var.capacity == "spot" ? { "nightshift/spot" = "true" } : {},
  )
  # what an autoscaler has to know of a node while there is none to look at
  template = merge(
    { for key, value in local.labels : "label/${key}" => value },
    { for key, value in local.taints : "taint/${key}" => "${value}:NoSchedule" },
    var.kind == "gpu" ? { "resources/nvidia.com/gpu" = tostring(local.gpu_counts[0] * local.shares) } : {},
    local.efa ? { "resources/vpc.amazonaws.com/efa" = tostring(local.efa_cards) } : {},
  )
}

resource "aws_launch_template" "this" {
  name                   = "${var.cluster_name}-${var.name}"
  update_default_version = true
  # a capacity block wants its type here, and then it must not be in the node group
  instance_type          = var.capacity == "capacity_block" ? var.instance_types[0] : null
  vpc_security_group_ids = local.efa ? null : [var.security_group_id]

  user_data = var.kind == "general" ? null : base64encode(<<-EOT
    MIME-Version: 1.0
    Content-Type: multipart/mixed; boundary="//"

    --//
    Content-Type: application/node.eks.aws

    apiVersion: node.eks.aws/v1alpha1
    kind: NodeConfig
    spec:${local.features}
      instance:
        localStorage:
          strategy: RAID0

    --//--
  EOT
  )

  # with a hop limit of 1 a pod cannot act as its node
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_size           = var.disk_gib
      volume_type           = "gp3"
      encrypted             = true
      delete_on_termination = true
    }
  }

  # the first interface cannot be for EFA alone; every card then has one that is
  dynamic "network_interfaces" {
    for_each = local.efa ? [0] : []

    content {
      network_card_index          = network_interfaces.value
      device_index                = 0
      interface_type              = "interface"
      security_groups             = [var.security_group_id, var.efa_security_group_id]
      associate_public_ip_address = false
      delete_on_termination       = true
    }
  }

  dynamic "network_interfaces" {
    for_each = range(local.efa_cards)

    content {
      network_card_index    = network_interfaces.value
      device_index          = network_interfaces.value == 0 ? 1 : 0
      interface_type        = "efa-only"
      security_groups       = [var.efa_security_group_id]
      delete_on_termination = true
    }
  }

  dynamic "placement" {
    for_each = aws_placement_group.this

    content {
      group_name = placement.value.name
    }
  }

  dynamic "instance_market_options" {
    for_each = var.capacity == "capacity_block" ? ["capacity-block"] : []

    content {
      market_type = instance_market_options.value
    }
  }

  dynamic "capacity_reservation_specification" {
    for_each = local.reservation ? [var.reservation_id] : []

    content {
      capacity_reservation_target {
        capacity_reservation_id = capacity_reservation_specification.value
      }
    }
  }

  # the provider's default tags stop at the template: what it launches, the dearest of all, has those that are named here
  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume", "network-interface"])

    content {
      resource_type = tag_specifications.value
      tags          = merge(var.tags, { Name = "${var.cluster_name}-${var.name}" })
    }
  }

  lifecycle {
    precondition {
      condition     = (var.kind == "gpu") == !contains(local.gpu_counts, 0)
      error_message = "instance_types of pool ${var.name} must be NVIDIA types known to modules/node_pool in a gpu pool, and none of them in a general one."
    }

    precondition {
      condition     = var.kind == "gpu" || !var.preload_images
      error_message = "preload_images of pool ${var.name} is true, and general nodes have no instance store."
    }

    precondition {
      condition     = var.sharing == "none" || var.kind == "gpu"
      error_message = "sharing of pool ${var.name} is ${var.sharing}, and a general node has no GPU to share."
    }

    precondition {
      condition     = length(local.gpu_counts) == 1
      error_message = "instance_types of pool ${var.name} must have equally many GPUs: the autoscaler takes the first for all."
    }

    precondition {
      condition     = !local.efa || local.efa_cards > 0
      error_message = "fabric of pool ${var.name} is efa, and modules/node_pool knows the network cards of ${join(", ", keys(local.cards))} only."
    }

    precondition {
      condition     = !local.efa || length(var.instance_types) == 1
      error_message = "fabric of pool ${var.name} is efa: name one instance type, since types differ in their network cards."
    }

    precondition {
      condition     = !local.efa || length(var.subnet_ids) == 1
      error_message = "fabric of pool ${var.name} is efa, which does not leave a zone: name one zone."
    }

    precondition {
      condition     = local.reservation == (var.reservation_id != null)
      error_message = "reservation_id of pool ${var.name} must be given for capacity reserved and capacity_block, and for no other."
    }

    precondition {
      condition     = !local.reservation || length(var.instance_types) == 1
      error_message = "capacity of pool ${var.name} is a reservation, which is for one instance type: name that one."
    }

    precondition {
      condition     = !local.reservation || length(var.subnet_ids) == 1
      error_message = "capacity of pool ${var.name} is a reservation, which lies in one zone: name that one."
    }

    precondition {
      condition     = !(var.placement_group && (local.reservation || var.capacity == "spot"))
      error_message = "placement_group of pool ${var.name} must be false: a reservation has its own place, and spot in one group finds less capacity."
    }

    precondition {
      condition     = !var.placement_group || length(var.subnet_ids) == 1
      error_message = "placement_group of pool ${var.name} lies in one zone: name that one."
    }

    precondition {
      condition     = var.capacity != "spot" || length(var.instance_types) >= 3
      error_message = "capacity of pool ${var.name} is spot: name three instance types or more, so that one shortage does not stop it."
    }
  }
}

resource "aws_placement_group" "this" {
  count = var.placement_group ? 1 : 0

  name     = "${var.cluster_name}-${var.name}"
  strategy = "cluster"
}

resource "aws_eks_node_group" "this" {
  cluster_name = var.cluster_name
  # what EKS adds lets the next group stand beside this one, which a change of instance types replaces
  node_group_name_prefix = "${var.name}-"
  version                = var.kubernetes_version
  node_role_arn          = var.node_role_arn
  subnet_ids             = var.subnet_ids
  ami_type               = var.kind == "gpu" ? "AL2023_x86_64_NVIDIA" : "AL2023_x86_64_STANDARD"
  capacity_type          = { on_demand = "ON_DEMAND", reserved = "ON_DEMAND", spot = "SPOT", capacity_block = "CAPACITY_BLOCK" }[var.capacity]
  instance_types         = var.capacity == "capacity_block" ? null : var.instance_types
  labels                 = local.labels

  launch_template {
    id      = aws_launch_template.this.id
    version = aws_launch_template.this.latest_version
  }

  scaling_config {
    min_size     = var.min
    max_size     = var.max
    desired_size = var.min
  }

  update_config {
    max_unavailable = 1
  }

  # by what the node monitoring agent of modules/addons reports, beside nodes that are not ready
  dynamic "node_repair_config" {
    for_each = var.node_repair ? [true] : []

    content {
      enabled = node_repair_config.value
    }
  }

  dynamic "taint" {
    for_each = local.taints

    content {
      key    = taint.key
      value  = taint.value
      effect = "NO_SCHEDULE"
    }
  }

  lifecycle {
    # of spot there may be none to start the next one with
    create_before_destroy = true
    # the autoscaler's from here on: otherwise every apply ends the nodes that train
    ignore_changes = [scaling_config[0].desired_size]
  }
}

# a managed node group does not hand its tags on to the group that scales
resource "aws_autoscaling_group_tag" "template" {
  for_each = local.template

  autoscaling_group_name = aws_eks_node_group.this.resources[0].autoscaling_groups[0].name

  tag {
    key                 = "k8s.io/cluster-autoscaler/node-template/${each.key}"
    value               = each.value
    propagate_at_launch = false
  }
}
