data "aws_partition" "current" {}

locals {
  ec2   = "arn:${data.aws_partition.current.partition}:ec2:${var.region}"
  owned = "kubernetes.io/cluster/${var.cluster_name}"
  # made by a launch, and so tagged by it
  launched = [for kind in ["fleet", "instance", "launch-template", "network-interface", "spot-instances-request", "volume"] : "${local.ec2}:${var.account_id}:${kind}/*"]
  events = {
    spot      = { source = "aws.ec2", detail = "EC2 Spot Instance Interruption Warning" }
    rebalance = { source = "aws.ec2", detail = "EC2 Instance Rebalance Recommendation" }
    state     = { source = "aws.ec2", detail = "EC2 Instance State-change Notification" }
    health    = { source = "aws.health", detail = "AWS Health Event" }
  }
}

resource "aws_sqs_queue" "interruptions" {
  name                      = "${var.cluster_name}-interruptions"
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_policy" "interruptions" {
  queue_url = aws_sqs_queue.interruptions.url

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "RulesBelow"
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = "sqs:SendMessage"
        Resource  = aws_sqs_queue.interruptions.arn
        Condition = { ArnEquals = { "aws:SourceArn" = [for rule in aws_cloudwatch_event_rule.this : rule.arn] } }
      },
      {
        Sid       = "EncryptedOnly"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = aws_sqs_queue.interruptions.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}

resource "aws_cloudwatch_event_rule" "this" {
  for_each = local.events

  name          = "${var.cluster_name}-${each.key}"
  event_pattern = jsonencode({ source = [each.value.source], "detail-type" = [each.value.detail] })
}

resource "aws_cloudwatch_event_target" "this" {
  for_each = local.events

  rule = aws_cloudwatch_event_rule.this[each.key].name
  arn  = aws_sqs_queue.interruptions.arn
}

resource "aws_iam_role" "this" {
  name = "${var.cluster_name}-karpenter"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_eks_pod_identity_association" "this" {
  cluster_name    = var.cluster_name
  namespace       = "kube-system"
  service_account = "karpenter"
  role_arn        = aws_iam_role.this.arn
}

# launches what it tags as this cluster's, and below ends nothing else
resource "aws_iam_role_policy" "launch" {
  name = "launch"
  role = aws_iam_role.this.name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "LaunchFrom"
        Effect = "Allow"
        Action = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource = concat(
          ["${local.ec2}::image/*", "${local.ec2}::snapshot/*"],
          [for kind in ["capacity-reservation", "placement-group", "security-group", "subnet"] : "${local.ec2}:${var.account_id}:${kind}/*"],
        )
      },
      {
        Sid       = "LaunchFromOwnTemplates"
        Effect    = "Allow"
        Action    = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource  = "${local.ec2}:${var.account_id}:launch-template/*"
        Condition = { StringEquals = { "aws:ResourceTag/${local.owned}" = "owned" } }
      },
      {
        Sid      = "LaunchTagged"
        Effect   = "Allow"
        Action   = ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"]
        Resource = local.launched
        Condition = {
          StringEquals = { "aws:RequestTag/${local.owned}" = "owned", "aws:RequestTag/eks:eks-cluster-name" = var.cluster_name }
          StringLike   = { "aws:RequestTag/karpenter.sh/nodepool" = "*" }
        }
      },
    ]
  })
}

resource "aws_iam_role_policy" "this" {
  name = "nodes"
  role = aws_iam_role.this.name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "TagAtLaunch"
        Effect   = "Allow"
        Action   = "ec2:CreateTags"
        Resource = local.launched
        Condition = {
          StringEquals = {
            "aws:RequestTag/${local.owned}" = "owned"
            "ec2:CreateAction"              = ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]
          }
        }
      },
      {
        Sid      = "NameNodes"
        Effect   = "Allow"
        Action   = "ec2:CreateTags"
        Resource = "${local.ec2}:${var.account_id}:instance/*"
        Condition = {
          StringEquals                = { "aws:ResourceTag/${local.owned}" = "owned" }
          "ForAllValues:StringEquals" = { "aws:TagKeys" = ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"] }
        }
      },
      {
        Sid       = "EndOwn"
        Effect    = "Allow"
        Action    = ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"]
        Resource  = [for kind in ["instance", "launch-template"] : "${local.ec2}:${var.account_id}:${kind}/*"]
        Condition = { StringEquals = { "aws:ResourceTag/${local.owned}" = "owned" } }
      },
      {
        Sid    = "Look"
        Effect = "Allow"
        Action = [
          "ec2:DescribeCapacityReservations",
          "ec2:DescribeImages",
          "ec2:DescribeInstances",
          "ec2:DescribeInstanceStatus",
          "ec2:DescribeInstanceTypeOfferings",
          "ec2:DescribeInstanceTypes",
          "ec2:DescribeLaunchTemplates",
          "ec2:DescribePlacementGroups",
          "ec2:DescribeSecurityGroups",
          "ec2:DescribeSpotPriceHistory",
          "ec2:DescribeSubnets",
        ]
        Resource  = "*"
        Condition = { StringEquals = { "aws:RequestedRegion" = var.region } }
      },
      {
        Sid      = "Prices"
        Effect   = "Allow"
        Action   = "pricing:GetProducts"
        Resource = "*"
      },
      {
        Sid      = "Images"
        Effect   = "Allow"
        Action   = "ssm:GetParameter"
        Resource = "arn:${data.aws_partition.current.partition}:ssm:${var.region}:*:parameter/aws/service/*"
      },
      {
        Sid      = "Interruptions"
        Effect   = "Allow"
        Action   = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
        Resource = aws_sqs_queue.interruptions.arn
      },
      {
        Sid       = "NodesRole"
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = var.node_role_arn
        Condition = { StringEquals = { "iam:PassedToService" = "ec2.amazonaws.com" } }
      },
      {
        Sid      = "Profile"
        Effect   = "Allow"
        Action   = ["iam:AddRoleToInstanceProfile", "iam:CreateInstanceProfile", "iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:TagInstanceProfile"]
        Resource = "arn:${data.aws_partition.current.partition}:iam::${var.account_id}:instance-profile/karpenter/${var.region}/${var.cluster_name}/*"
      },
      {
        Sid      = "LookAtProfile" # asked by name, before there is one with a path
        Effect   = "Allow"
        Action   = "iam:GetInstanceProfile"
        Resource = "arn:${data.aws_partition.current.partition}:iam::${var.account_id}:instance-profile/*"
      },
      {
        Sid      = "Profiles"
        Effect   = "Allow"
        Action   = "iam:ListInstanceProfiles"
        Resource = "*"
      },
      {
        Sid      = "Cluster"
        Effect   = "Allow"
        Action   = "eks:DescribeCluster"
        Resource = var.cluster_arn
      },
    ]
  })
}
